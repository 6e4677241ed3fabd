// Host time around a role's ops beyond the launch of each: what tensor parallelism, units of
// sharded parameters and exchanges between stages add, and how a slow host shows in other
// frameworks.
#pragma once

#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/plan/job.h"

namespace trireme::planner {

struct HostCase {
  const Job& job;
  const BehaviourFit& fit;
  const StepProgram& program;
  const Program& role;
  double card_launch = 0;  // seconds to launch one kernel, before the framework's factor
};

// Adds to `times`, which hold every op alone. Other frameworks' kernels take longer by their share
// of the host's wait, and none of their ops is issued late besides.
void add_host_times(const HostCase& host, std::vector<OpTime>& times);

}  // namespace trireme::planner
