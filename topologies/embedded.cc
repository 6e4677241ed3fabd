#include "topologies/embedded.h"

#include <algorithm>
#include <span>

#include "core/check.h"
#include "core/embedded_file.h"

namespace trireme::topologies {
namespace embedded {
std::span<const core::EmbeddedFile> topology_data();
}  // namespace embedded

std::string_view embedded_text(std::string_view name) {
  const auto files = embedded::topology_data();
  const auto found = std::ranges::find(files, name, &core::EmbeddedFile::name);
  TRIREME_CHECK(found != files.end());
  return found->content;
}

}  // namespace trireme::topologies
