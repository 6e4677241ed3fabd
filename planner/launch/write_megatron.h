// Megatron-LM's arguments of pretrain_gpt.py, as a shell script that each host runs.
#pragma once

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Throws Error naming the axis that Megatron-LM cannot run.
LaunchFile write_megatron(const LaunchPlan& launch);

}  // namespace trireme::planner
