// Buffers of routed experts in a backward of this project's runtime, as planner/lower/experts.cc
// writes them.
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Whether the plan's layers with experts are kernels of this project's runtime.
bool runs_own_experts(const Job& job, const Plan& plan);

// Most bytes that such a layer's backward through its experts has alive beside what it kept, the
// gradient that comes in among them; less than nothing where what it kept goes first. Requires:
// runs_own_experts.
double own_expert_transient(const Job& job, const Plan& plan);

}  // namespace trireme::planner
