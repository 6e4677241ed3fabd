// What formats with sections hold their keys to before any is read.
#pragma once

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// "zero_optimization": 3 where the program looks for keys inside. Throws Error (FILE:LINE).
void refuse_values_of_sections(const LaunchConfig& config, const KnownKeys& known);

}  // namespace trireme::planner
