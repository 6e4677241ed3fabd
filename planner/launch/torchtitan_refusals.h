// What torchtitan refuses of a plan beyond check_plan's rules, and what its TOML has no field for.
#pragma once

#include "planner/launch/launch_plan.h"
#include "planner/launch/torchtitan_flavors.h"

namespace trireme::planner {

// Throws Error naming the axis and what would be right.
void refuse_plans_unknown_to_torchtitan(const LaunchPlan& launch, const TorchtitanModel& model);

}  // namespace trireme::planner
