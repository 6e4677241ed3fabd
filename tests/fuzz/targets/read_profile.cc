#include "topologies/profile.h"

#include <string>

#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {

void read_profile(std::string_view text) {
  const topologies::Profile profile = topologies::parse_profile(text, "p.json");
  const std::string written = topologies::profile_text(profile);
  require(topologies::profile_text(topologies::parse_profile(written, "again")) == written,
          "a profile reads back");
}

}  // namespace trireme::fuzz
