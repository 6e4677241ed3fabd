// What formats with sections hold their keys to before any is read.
#pragma once

#include "planner/launch/field_table.h"
#include "planner/launch/launch_config.h"

namespace trireme::planner {

// Refuses "zero_optimization": 3 where the program looks for keys inside, and lists the settings
// whose keys are not known. Those of the table are, and the names as known_keys takes them. Throws
// Error (FILE:LINE).
void check_keys(LaunchConfig& config, std::span<const Field> table, std::string_view others,
                std::string_view sections, std::string_view inside = {});

}  // namespace trireme::planner
