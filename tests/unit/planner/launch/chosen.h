// Whether a launch configuration asks for a setting of its framework.
#pragma once

#include <algorithm>
#include <string>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

inline bool chooses(const LaunchConfig& config, const std::string& choice) {
  return std::find(config.choices.begin(), config.choices.end(), choice) != config.choices.end();
}

}  // namespace trireme::planner
