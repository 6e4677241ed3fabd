// What it costs that layers' activations lie on the host between forward and backward, in this
// project's runtime (planner/lower/kept_on_host.h).
#pragma once

#include "planner/cost/offload_cost.h"

namespace trireme::planner {

// Whether the job's activations go there so.
bool keeps_on_host(const Job& job);
// In a pipeline one micro-batch's go up beside another's on their way down.
HostWays ways_of_kept(std::int64_t stages);
// Seconds of a step's copies that no pass hides; `forward`, `backward`: one micro-batch's passes.
double kept_on_host_seconds(const Job& job, const Plan& plan, const HostMachine& host,
                            double forward, double backward);

}  // namespace trireme::planner
