// Whether a unit's gathers and reductions have one link between them.
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "topologies/cluster.h"

namespace trireme::planner {

// Over the network both go through the rank's adapter, each with as many bytes out as in: what one
// has the other waits for, so they take turns in the order of issue. In a pipeline the two mostly
// fall into different micro-batches. This project's runtime starts both at once: its programs say
// so, and how they share the adapter is the simulator's.
// `shard`: the ranks that share a unit's states.
bool takes_turns(const Job& job, const Plan& plan, const topologies::GroupShape& shard);

}  // namespace trireme::planner
