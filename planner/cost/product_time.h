// Seconds of one matrix product as a framework runs it: what estimate, walk and simulate share.
#pragma once

#include "planner/cost/behaviour_fit.h"
#include "planner/plan/job.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

// Under fp8 and fp4 `stays_wide` names the products that run in bf16 all the same (head, router);
// the others also scan their activation operand for its largest value and cast it. This project's
// runtime launches the products of a `count` (experts) one by one.
double product_seconds(const Job& job, const topologies::OpCost& cost, const BehaviourFit& fit,
                       const topologies::MatmulShape& shape, bool stays_wide);

}  // namespace trireme::planner
