// Hugging Face accelerate's YAML: FSDP of PyTorch, version 1 or 2, or plain data parallelism.
#pragma once

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Throws Error naming the axis that accelerate cannot run.
LaunchFile write_accelerate(const LaunchPlan& launch);

}  // namespace trireme::planner
