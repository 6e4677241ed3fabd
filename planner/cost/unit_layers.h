// How many layers a framework gathers or reduces together.
#pragma once

#include <cstdint>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

// Fully sharded (by PyTorch in a pipeline too): the plan's unit, 0 = all of a chunk. Else a bucket
// of gradients: one layer under this project's runtime, in others as many as fill the framework's.
// `parameters`: of the first layer, whole.
std::int64_t layers_of_unit(const Job& job, const Plan& plan, const RunSharding& run,
                            double parameters);
// Of a rank that has so many layers: no unit has layers of two chunks.
std::int64_t layers_of_unit(const Job& job, const Plan& plan, std::int64_t rank_layers,
                            double parameters);

}  // namespace trireme::planner
