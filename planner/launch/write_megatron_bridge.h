// Megatron-Bridge's configuration, as a Python file that torchrun starts.
#pragma once

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Throws Error naming the axis that Megatron-Bridge cannot run.
LaunchFile write_megatron_bridge(const LaunchPlan& launch);

}  // namespace trireme::planner
