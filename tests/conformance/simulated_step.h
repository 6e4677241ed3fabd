// A step as `simulate --no-contention` has it.
#pragma once

#include <algorithm>

#include "planner/cost/behaviour_fit.h"
#include "planner/plan/job.h"
#include "planner/walk/step_times.h"
#include "sim/simulate.h"

namespace trireme::tests {

inline double simulated_seconds(const planner::Job& job, const StepProgram& program) {
  const double lost =
      std::clamp(planner::behaviour_fit(job.framework, job.profile).overlap_slowdown, 0.0, 0.9);
  sim::SimulateOptions options;
  options.share_links = false;
  options.record_trace = false;
  options.compute_slowdown = lost / (1 - lost);
  return to_seconds(
             sim::simulate(program, planner::time_ops(job, program), job.cluster, options).step)
      .value;
}

}  // namespace trireme::tests
