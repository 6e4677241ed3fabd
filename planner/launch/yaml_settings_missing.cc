// Built instead of yaml_settings.cc where yaml-cpp is not installed.
#include "core/error.h"
#include "planner/launch/yaml_settings.h"

namespace trireme::planner {

bool reads_yaml() {
  return false;
}

void read_yaml_settings(std::string_view, LaunchConfig& config) {
  throw Error(
      config.source,
      "YAML cannot be read: this program was built without yaml-cpp; install libyaml-cpp-dev "
      "and build it again",
      ErrorKind::kMissingMachine);
}

}  // namespace trireme::planner
