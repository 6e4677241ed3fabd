// The settings of a JSON, TOML or YAML text as section.key, with their lines. The readers of TOML
// and YAML are optional: without toml++ or yaml-cpp the program says which package would bring it.
#pragma once

#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// Append to config.settings. Lists become their elements separated by blanks, lists of lists by
// '|'. Throw Error (FILE:LINE) when the text is none of the syntax, or when the program was built
// without its library.
void read_json_settings(std::string_view text, LaunchConfig& config);
void read_toml_settings(std::string_view text, LaunchConfig& config);
void read_yaml_settings(std::string_view text, LaunchConfig& config);
// false: the library was not there when the program was built
bool reads_toml();
bool reads_yaml();

}  // namespace trireme::planner
