// Memory of a stage under this project's runtime, counted from the buffers that planner/lower gives
// an op to read or write: persistent states, activations in flight, and what is alive at once in
// the head's and in a layer's backward.
#pragma once

#include <vector>

#include "planner/cost/memory.h"
#include "planner/job.h"
#include "planner/plan.h"

namespace trireme::planner {

// Whether the plan is one that lower() writes a program for, so that this count holds.
bool counts_own_memory(const Job& job, const Plan& plan);
// Requires: counts_own_memory. `rank` is the pipeline rank.
StageMemory own_stage_memory(const Job& job, const Plan& plan, std::int64_t rank);

}  // namespace trireme::planner
