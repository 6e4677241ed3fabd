// The formulas' symbols of one plan, as the detailed model knows them.
#pragma once

#include "planner/cost/estimate.h"
#include "planner/cost/formulas.h"
#include "planner/plan/job.h"

namespace trireme::planner {

// A is what one micro-batch keeps of the whole model on one GPU without tensor parallelism, in
// elements; tau counts the units that the framework holds gathered at once; alpha is A over the 4 d
// elements of state.
Symbols symbols_of(const Job& job, const Plan& plan);

}  // namespace trireme::planner
