// Built instead of toml_settings.cc where toml++ is not installed.
#include "core/error.h"
#include "planner/launch/toml_settings.h"

namespace trireme::planner {

bool reads_toml() {
  return false;
}

void read_toml_settings(std::string_view, LaunchConfig& config) {
  throw Error(config.source,
              "TOML cannot be read: this program was built without toml++; install "
              "libtomlplusplus-dev and build it again",
              ErrorKind::kMissingMachine);
}

}  // namespace trireme::planner
