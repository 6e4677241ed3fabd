// DeepSpeed's settings, whether from its JSON or from accelerate's deepspeed_config. Keys are the
// JSON's, joined by dots.
#pragma once

#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// Appends a JSON object's settings, section.key, with their lines. Throws Error (FILE:LINE).
void read_json_settings(std::string_view text, LaunchConfig& config);
// Fills framework, choices, precision, batch and layout from config.settings. Values "auto" count
// as missing; a remark lists them. Throws Error as above.
void read_deepspeed_layout(LaunchConfig& config);

}  // namespace trireme::planner
