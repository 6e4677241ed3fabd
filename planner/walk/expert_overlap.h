// Exchanges of experts that run beside another micro-batch's layers, in the times of a role's ops.
#pragma once

#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/plan/job.h"

namespace trireme::planner {

// Shortens the exchanges with the experts' ranks to what stays exposed beside a layer's compute
// (planner/cost/expert_time.h), where the framework overlaps them and the role's program can: it
// has several micro-batches, a pipeline has virtual stages, and no whole layer is repeated.
void expose_exchanges(const Job& job, const BehaviourFit& fit, const StepProgram& program,
                      const Program& role, std::vector<OpTime>& times);

}  // namespace trireme::planner
