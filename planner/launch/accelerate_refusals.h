// What accelerate refuses of a plan beyond check_plan's rules.
#pragma once

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Throws Error naming the axis and what would be right.
void refuse_plans_unknown_to_accelerate(const LaunchPlan& launch);

}  // namespace trireme::planner
