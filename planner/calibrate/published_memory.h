// The quantity that a published row's memory_kind and memory_scope name.
#pragma once

#include "planner/calibrate/published.h"
#include "planner/cost/memory.h"

namespace trireme::planner {

// GiB: allocated, reserved or device, of the largest stage or of the one that the row reports.
double published_memory_gib(const PublishedRow& row, const Plan& plan,
                            const MemoryEstimate& estimate);

}  // namespace trireme::planner
