// The settings of a YAML file, section.key, with their lines.
#pragma once

#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// Appends to config.settings. Lists become their elements separated by blanks. Throws Error
// (FILE:LINE) when it is not YAML, or when the program was built without yaml-cpp.
void read_yaml_settings(std::string_view text, LaunchConfig& config);
bool reads_yaml();  // false: the library was not there when the program was built

}  // namespace trireme::planner
