// Jobs in 8 bits, layouts of theirs, and what must agree between them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "planner/plan/narrow.h"
#include "tests/conformance/training.h"

namespace trireme::conformance {

using planner::Job;
using planner::Plan;
using planner::Recompute;
using planner::Schedule;
using planner::Sharding;

inline constexpr std::int64_t kBatch = 8;
inline constexpr std::int64_t kSteps = 3;

// Extents of whole 16 elements on each of two tensor ranks.
inline models::Transformer wide_model(const std::string& kind) {
  models::Transformer model = small_model(kind);
  model.layers = 4;
  model.hidden = 64;
  model.heads = 4;
  model.kv_heads = kind == "gpt" ? 4 : 2;
  model.head_dim = 16;
  model.ffn = 96;
  return model;
}

inline Job narrow_job(const std::string& kind) {
  Job job = small_job(wide_model(kind), "trireme");
  job.precision = topologies::Precision::kFp8;
  return job;
}

inline Plan plan_of(
    const std::string& form, const std::function<void(Plan&)>& choose = [](Plan&) {}) {
  Plan plan = planner::parse_short_form(form);
  choose(plan);
  plan.micro_batches = kBatch / (plan.data_parallel() * plan.micro_batch);
  return plan;
}

inline constexpr runtime::cpu::CpuOptions kDouble{
    .arithmetic = runtime::cpu::Arithmetic::kFp64, .shuffle_seed = 0, .poison = true};

inline void expect_alike(const Outcome& outcome, const Outcome& expected) {
  ASSERT_EQ(outcome.losses.size(), expected.losses.size());
  EXPECT_NEAR(outcome.losses.front(), expected.losses.front(), 1e-12);
  EXPECT_NEAR(outcome.losses.back(), expected.losses.back(), 1e-8);
  EXPECT_LT(largest_difference(outcome.gradients, expected.gradients, 1e-3), 1e-10);
  EXPECT_EQ(outcome.allocator_peaks, outcome.liveness_peaks);
}

// Where ranks have scales of their own: sums differ by what lies far below the largest, and by the
// roundings that this turns over.
inline void expect_near(const Outcome& outcome, const Outcome& expected) {
  EXPECT_NEAR(outcome.losses.back(), expected.losses.back(), 1e-3);
  EXPECT_LT(spread(outcome.gradients, expected.gradients), 0.02);
  EXPECT_EQ(outcome.allocator_peaks, outcome.liveness_peaks);
}

// A scale is of a rank's part of one micro-batch's tensor: what cuts the batch, the layers or the
// states and not these changes no bit of it.
inline std::vector<Plan> uncut_plans() {
  return {
      plan_of("dp8.mb1"),
      plan_of("fsdp4.mb1", [](Plan& p) { p.sharding = Sharding::kFull; }),
      plan_of("fsdp2.mb1", [](Plan& p) { p.sharding = Sharding::kGradients; }),
      plan_of("pp2.fsdp2.mb1", [](Plan& p) { p.sharding = Sharding::kFull; }),
      plan_of("pp4.mb1"),
      plan_of("pp2.vpp2.mb1", [](Plan& p) { p.schedule = Schedule::kInterleaved; }),
      plan_of("pp2.mb1", [](Plan& p) { p.schedule = Schedule::kGpipe; }),
      plan_of("pp2.mb1", [](Plan& p) { p.schedule = Schedule::kZeroBubbleH1; }),
      plan_of("mb1", [](Plan& p) { p.recompute = Recompute::kFull; }),
      plan_of("pp2.mb1",
              [](Plan& p) {
                p.recompute = Recompute::kSelective;
                p.recompute_modules = planner::kMlp | planner::kLayerNorm;
              }),
  };
}

// A first dense layer and routed experts above it, softmax or sigmoid with a shared expert;
// queries, keys and values as they are or by way of latents.
inline Job expert_job(bool shared, bool latent) {
  Job job = narrow_job("llama");
  job.model.name = fmt::format("experts-{}-{}", shared, latent);
  job.model.moe = models::MixtureOfExperts{.experts = 4,
                                           .experts_per_token = 2,
                                           .expert_ffn = 32,
                                           .shared_ffn = shared ? 64 : 0,
                                           .router_bias = shared};
  job.model.function.router_score = shared ? "sigmoid" : "softmax";
  job.model.function.router_normalises = job.model.function.router_bias_selects = shared;
  job.model.moe_layers = {false, true, true, true};
  if (latent) {
    job.model.kv_heads = job.model.heads;
    job.model.latent = models::LatentAttention{
        .q_lora = shared ? 32 : 0, .kv_lora = 48, .qk_nope = 16, .qk_rope = 16, .v_head = 16};
    job.model.function.rotary_interleaved = true;
  }
  return job;
}

}  // namespace trireme::conformance
