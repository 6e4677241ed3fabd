// DeepSpeed's JSON configuration.
#pragma once

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Throws Error naming the axis that the JSON cannot say.
LaunchFile write_deepspeed(const LaunchPlan& launch);

}  // namespace trireme::planner
