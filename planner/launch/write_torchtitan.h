// torchtitan's TOML of v0.2.x, the last releases that read one.
#pragma once

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Throws Error naming the axis that torchtitan cannot run, or that the model has no flavor.
LaunchFile write_torchtitan(const LaunchPlan& launch);

}  // namespace trireme::planner
