#include "planner/calibrate/published_memory.h"

namespace trireme::planner {

double published_memory_gib(const PublishedRow& row, const Plan& plan,
                            const MemoryEstimate& estimate) {
  // Numbers that a script divided by 10^9 are compared as they are printed.
  const bool decimal = row.memory_detail.find("1e9") != std::string::npos ||
                       row.memory_detail.find("10^9") != std::string::npos;
  const double unit = decimal ? 1024.0 * 1024 * 1024 / 1e9 : 1;
  double allocated = estimate.allocated_gib;
  if (!estimate.stages.empty() && plan.pipeline > 1) {
    if (row.memory_scope == "first_stage") {
      allocated = estimate.stages.front().items.total();
    } else if (row.memory_scope == "logging_rank") {
      allocated = estimate.stages.back().items.total();
    }
  }
  const double share = estimate.allocated_gib > 0 ? allocated / estimate.allocated_gib : 1;
  // Trainers of fine-tuning and of offload print what the allocator reserved, in GiB; tables in GB
  // that do not say how they were measured are nvidia-smi's.
  const bool unsaid = (row.finetune || row.offload) && row.memory_kind == "unknown";
  const bool device = row.memory_kind == "device" ||
                      (unsaid && row.memory_detail.find("GB as printed") != std::string::npos);
  const bool reserved = row.memory_kind == "reserved" || (unsaid && !device);
  if (reserved) {
    return unit * estimate.reserved_gib * share;
  }
  if (device) {
    return unit * (estimate.device_gib - estimate.reserved_gib * (1 - share));
  }
  return unit * allocated;
}

}  // namespace trireme::planner
