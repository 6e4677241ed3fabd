#include "planner/cost/zero_memory.h"

#include <algorithm>

#include "planner/cost/state_memory.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

double norm_copy_bytes(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  if (job.framework.states != StateLayout::kDeepSpeed || job.training.has_adapters() ||
      job.offload.optimizer != OffloadTo::kHost || job.framework.master_bytes <= 0) {
    return 0;
  }
  constexpr double kFp64 = 8;
  constexpr double kAtOnce = 2.5e8;
  const double part = main_copy_bytes(context, stage) / job.framework.master_bytes;
  const bool sharded = run_sharding(job, *context.plan).sharding == Sharding::kFull;
  const double share = part / std::max(1.0, stage.trained + stage.trained_experts);
  return kFp64 * (sharded ? std::min(kAtOnce, share * stage.head) : std::min(part, stage.head));
}

double zero_pools(const Job& job, const StageContents& stage, const Gathered& gathered,
                  const MemoryItems& peak) {
  const double reduced =
      job.training.has_adapters() ? 0 : job.framework.reduce_bytes * stage.table();
  const double other_table =
      job.framework.expandable_segments ? 0 : compute_bytes(job) * (stage.root - stage.table());
  return std::max(0.0, gathered.most + other_table - peak.gathered_parameters) + reduced;
}

double own_segments(const StageContext& context, const StageContents& stage, double head_gradient) {
  const Job& job = *context.job;
  if (job.framework.states != StateLayout::kDeepSpeed || job.framework.expandable_segments ||
      job.training.has_adapters() || job.framework.master_bytes <= 0) {
    return 0;
  }
  double held = stage.has_head ? context.logit_block : 0;
  double segments = 0;
  const auto allocate = [&](double block) {
    segments += block > held ? block : 0;
    held = std::max(held, block);
  };
  if (stage.has_head && head_gradient > 0) {
    allocate(head_gradient);
    allocate(norm_copy_bytes(context, stage));
  }
  const double part =
      context.resident.optimizer * main_copy_bytes(context, stage) / job.framework.master_bytes;
  const bool by_groups = context.plan->sharding == Sharding::kFull;
  const double at_once = by_groups ? std::min(part, zero_sub_group(job)) : part;
  const double laid = zero_sum_bytes(job);
  if (laid < 4) {
    allocate(laid * at_once);
    allocate(4 * at_once);
  }
  return segments;
}

}  // namespace trireme::planner
