// What the caching allocator holds beyond what tensors take: max_memory_reserved.
#pragma once

#include "planner/cost/memory.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Fills the reserved band of `out` from its stages. The low end is never below the peak allocated.
// Sources: PyTorch's CUDACachingAllocator (a pool a stream, blocks split but not moved); rows of
// the published corpus that print allocated and reserved.
void fill_reserved(const Job& job, const Plan& plan, MemoryEstimate& out);

// A stage that allocates more does not fit in so much, whatever else its plan holds.
double most_that_fits_gib(const Job& job, double capacity_gib);

}  // namespace trireme::planner
