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

double lasting_bucket(const Job& job, const Plan& plan) {
  const bool third =
      job.framework.states == StateLayout::kDeepSpeed && plan.sharding == Sharding::kFull;
  return third ? compute_bytes(job) * static_cast<double>(job.framework.bucket_elements) : 0;
}

BackwardBuckets backward_buckets(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const Sharding sharding = run_sharding(job, plan).sharding;
  if (job.framework.states != StateLayout::kDeepSpeed || sharding == Sharding::kNone) {
    return {};
  }
  const double bucket = compute_bytes(job) * static_cast<double>(job.framework.bucket_elements);
  if (sharding == Sharding::kFull) {
    // A unit's is among what its backward has there (Gathered::unit_gradients).
    const double elements = stage.trained + stage.trained_experts - stage.largest_unit;
    const double other = bucket - compute_bytes(job) * stage.largest_unit;
    return {.bytes = std::max(0.0, std::min(other, compute_bytes(job) * elements))};
  }
  // A pipeline's engine reduces by itself, and before the change had a bucket at the step's end
  // only.
  const bool early = job.framework.buckets_before_backward;
  if (early && plan.pipeline > 1) {
    return {};
  }
  const bool two = job.framework.overlap_grad_reduce && plan.pipeline == 1;
  return {.bytes = (two ? 2 : 1) * bucket,
          .at_loss = early,
          .wait = !early && sharding == Sharding::kOptimizer && plan.micro_batches > 1};
}

double zero_pools(const Job& job, const StageContents& stage, const Gathered& gathered,
                  const MemoryItems& peak) {
  const double reduced =
      job.training.has_adapters() ? 0 : job.framework.reduce_bytes * stage.table();
  const double other_table =
      job.framework.expandable_segments ? 0 : compute_bytes(job) * (stage.root - stage.table());
  return std::max(0.0, gathered.most + other_table - peak.gathered_parameters) + reduced;
}

double own_segments(const StageContext& context, const StageContents& stage,
                    const Besides& besides) {
  const Job& job = *context.job;
  const bool by_groups = context.plan->sharding == Sharding::kFull;
  if (job.framework.states != StateLayout::kDeepSpeed || job.framework.expandable_segments) {
    return by_groups ? besides.buckets : 0;
  }
  double held = stage.has_head ? context.logit_block : 0;
  double segments = by_groups ? besides.buckets : 0;
  const auto allocate = [&](double block) {
    segments += block > held ? block : 0;
    held = std::max(held, block);
  };
  if (besides.buckets > 0 && !by_groups) {
    const double bucket = compute_bytes(job) * static_cast<double>(job.framework.bucket_elements);
    segments += bucket > held ? besides.buckets - bucket : 0;  // there at once
    allocate(bucket);
  }
  if (job.training.has_adapters() || job.framework.master_bytes <= 0) {
    return segments;
  }
  if (stage.has_head && besides.head_gradient > 0) {
    allocate(besides.head_gradient);
    allocate(norm_copy_bytes(context, stage));
  }
  const double part =
      context.resident.optimizer * main_copy_bytes(context, stage) / job.framework.master_bytes;
  const double at_once = by_groups ? std::min(part, zero_sub_group(job)) : part;
  const double laid = zero_sum_bytes(job, context.plan->sharding);
  if (laid < 4) {
    allocate(laid * at_once);
    allocate(4 * at_once);
  }
  return segments;
}

}  // namespace trireme::planner
