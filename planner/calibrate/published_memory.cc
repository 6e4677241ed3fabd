#include "planner/calibrate/published_memory.h"

namespace trireme::planner {

double published_memory_gib(const PublishedRow& row, const Plan& plan,
                            const MemoryEstimate& estimate) {
  double allocated = estimate.allocated_gib;
  if (!estimate.stages.empty() && plan.pipeline > 1) {
    if (row.memory_scope == "first_stage") {
      allocated = estimate.stages.front().items.total();
    } else if (row.memory_scope == "logging_rank") {
      allocated = estimate.stages.back().items.total();
    }
  }
  const double share = estimate.allocated_gib > 0 ? allocated / estimate.allocated_gib : 1;
  if (row.memory_kind == "reserved") {
    return estimate.reserved_gib * share;
  }
  if (row.memory_kind == "device") {
    return estimate.device_gib - estimate.reserved_gib * (1 - share);
  }
  return allocated;
}

}  // namespace trireme::planner
