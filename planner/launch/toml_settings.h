// The settings of a TOML file, section.key, with their lines.
#pragma once

#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// Appends to config.settings. Arrays become their elements separated by blanks. Throws Error
// (FILE:LINE) when it is not TOML, or when the program was built without toml++.
void read_toml_settings(std::string_view text, LaunchConfig& config);
bool reads_toml();  // false: the library was not there when the program was built
// parallelism.module_fqns_per_model_part, an array of arrays: layers of each stage into
// config.layout.stage_layers, when it is set.
void read_module_parts(LaunchConfig& config);

}  // namespace trireme::planner
