// How long a rank's GPU waits for the host that issues its kernels.
#pragma once

#include "planner/cost/time_state.h"

namespace trireme::planner {

// Kernels queue up behind the GPU over a whole pass, so a head that keeps the GPU busy lets the
// host run ahead into the layers behind it. A framework that synchronises with its exchanges ends
// the queue after each pass; else, and without a pipeline, forward and backward are one. A host
// that waits for every kernel hides nothing.
void set_host_waits(const Plan& plan, const Framework& framework, RankTimes& rank);

}  // namespace trireme::planner
