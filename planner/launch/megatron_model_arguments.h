// The model's part of Megatron-LM's command line.
#pragma once

#include <string>
#include <vector>

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// One line a group of arguments. Requires: refuse_plans_unknown_to_megatron let it pass.
std::vector<std::string> megatron_model_arguments(const LaunchPlan& launch);

}  // namespace trireme::planner
