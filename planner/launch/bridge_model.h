// The model's part of Megatron-Bridge's configuration.
#pragma once

#include <string>
#include <vector>

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// One assignment to cfg.model a line, the first with the provider itself. Requires:
// refuse_plans_unknown_to_megatron let the plan pass.
std::vector<std::string> bridge_model_lines(const LaunchPlan& launch);
// Python's True or False.
const char* python(bool value);

}  // namespace trireme::planner
