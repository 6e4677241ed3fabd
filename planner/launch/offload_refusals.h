// What of an offload a launch format has no key for.
#pragma once

#include "planner/launch/export.h"

namespace trireme::planner {

// Throws Error naming the part and what would be right.
void refuse_unknown_offload(LaunchFormat format, const LaunchPlan& launch);

}  // namespace trireme::planner
