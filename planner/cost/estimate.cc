// Throughput conventions: MFU as Chowdhery et al. 2022 define it (model FLOP of what is computed,
// no recompute, over the dense peak); mfu_full_attention counts all attention scores, as PaLM and
// torchtitan do; HFU adds recompute (Korthikanti et al. 2022).
#include "planner/cost/estimate.h"

#include <cmath>

#include "planner/plan/sample_lengths.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

Estimator::Estimator(const Job& job)
    : memory_(job),
      time_(job),
      peak_(topologies::mean_peak(job.cluster, job.precision).value),
      gpus_(static_cast<double>(job.cluster.gpus)) {
  using models::FlopConvention;
  tokens_ = static_cast<double>(job.global_batch) * real_tokens(job);
  const std::int64_t attended = std::llround(attended_length(job));
  // Frozen weights need no gradient: two of the three products.
  const double trained = job.training.has_adapters() ? 2.0 / 3 : 1.0;
  const auto flop_per_step = [&](FlopConvention convention) {
    const Flop token = models::model_flop_per_token(job.model, attended, convention) +
                       models::multi_token_flop_per_token(job.model, attended, convention);
    // Of frozen layers the forward pass alone is computed (layers taken as alike).
    const double head = 6.0 * static_cast<double>(models::head_parameter_count(job.model));
    const double frozen = static_cast<double>(job.training.frozen_layers) /
                          static_cast<double>(job.model.layers) * (token.value - head);
    return tokens_ * (trained * (token.value - frozen) + frozen / 3);
  };
  half_causal_flop_per_step_ = flop_per_step(FlopConvention::kHalfCausal);
  full_flop_per_step_ = flop_per_step(FlopConvention::kFullAttention);
}

Throughput Estimator::throughput(const TimeEstimate& time) const {
  Throughput result;
  const double gpu_seconds = time.step_seconds * gpus_;
  result.tokens_per_second = tokens_ / time.step_seconds;
  result.tokens_per_second_per_gpu = tokens_ / gpu_seconds;
  result.model_tflops_per_gpu = half_causal_flop_per_step_ / gpu_seconds * 1e-12;
  result.peak_tflops = peak_ * 1e-12;
  if (peak_ > 0) {
    result.mfu = half_causal_flop_per_step_ / gpu_seconds / peak_;
    result.hfu = result.mfu * (1 + time.recomputed_flop_share);
    result.mfu_full_attention = full_flop_per_step_ / gpu_seconds / peak_;
  }
  return result;
}

void Estimator::estimate(const Plan& plan, Estimate& out) {
  out.plan = plan;
  memory_.estimate(plan, out.memory);
  time_.estimate(plan, out.time);
  out.throughput = throughput(out.time);
}

}  // namespace trireme::planner
