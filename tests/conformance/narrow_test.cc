// Training in 8 bits on the reference backend: the numbers of core/kernels.h's narrow products, in
// every layout that the runtime has them in; and what a plan says of its time and memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "core/program_text.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "planner/plan/narrow.h"
#include "tests/conformance/training.h"

namespace trireme::conformance {
namespace {

using planner::Job;
using planner::Plan;
using planner::Recompute;
using planner::Schedule;
using planner::Sharding;

constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kSteps = 3;

// Extents of whole 16 elements on each of two tensor ranks.
models::Transformer wide_model(const std::string& kind) {
  models::Transformer model = small_model(kind);
  model.layers = 4;
  model.hidden = 64;
  model.heads = 4;
  model.kv_heads = kind == "gpt" ? 4 : 2;
  model.head_dim = 16;
  model.ffn = 96;
  return model;
}

Job narrow_job(const std::string& kind) {
  Job job = small_job(wide_model(kind), "trireme");
  job.precision = topologies::Precision::kFp8;
  return job;
}

Plan plan_of(
    const std::string& form, const std::function<void(Plan&)>& choose = [](Plan&) {}) {
  Plan plan = planner::parse_short_form(form);
  choose(plan);
  plan.micro_batches = kBatch / (plan.data_parallel() * plan.micro_batch);
  return plan;
}

constexpr runtime::cpu::CpuOptions kDouble{
    .arithmetic = runtime::cpu::Arithmetic::kFp64, .shuffle_seed = 0, .poison = true};

// A scale is of a rank's part of one micro-batch's tensor: what cuts the batch, the layers or the
// states and not these changes no bit of it.
TEST(NarrowTraining, LayoutsThatCutNoTensorOfAMicroBatchTrainAlike) {
  const Plan plans[] = {
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
  for (const char* kind : {"llama", "gpt"}) {
    const Outcome expected = train(narrow_job(kind), plan_of("mb1"), kSteps, kDouble);
    for (const Plan& plan : plans) {
      SCOPED_TRACE(fmt::format("{} {}", kind, planner::short_form(plan)));
      const Outcome outcome = train(narrow_job(kind), plan, kSteps, kShuffled);
      ASSERT_EQ(outcome.losses.size(), expected.losses.size());
      EXPECT_NEAR(outcome.losses.front(), expected.losses.front(), 1e-12);
      EXPECT_NEAR(outcome.losses.back(), expected.losses.back(), 1e-8);
      EXPECT_LT(largest_difference(outcome.gradients, expected.gradients, 1e-3), 1e-10);
      EXPECT_EQ(outcome.allocator_peaks, outcome.liveness_peaks);
    }
  }
}

// Two tensor ranks have a scale each for their parts; sums differ by what lies far below the
// largest, and by the roundings that this turns over.
TEST(NarrowTraining, TensorParallelismTrainsAsNearlyAsRoundingsAllow) {
  for (const char* kind : {"llama", "gpt"}) {
    const Outcome expected = train(narrow_job(kind), plan_of("mb1"), kSteps, kDouble);
    for (const bool sequence : {false, true}) {
      const Plan plan = plan_of("tp2.mb1", [&](Plan& p) { p.sequence_parallel = sequence; });
      const Outcome outcome = train(narrow_job(kind), plan, kSteps, kShuffled);
      EXPECT_NEAR(outcome.losses.back(), expected.losses.back(), 1e-3);
      EXPECT_LT(spread(outcome.gradients, expected.gradients), 0.02) << kind;
      EXPECT_EQ(outcome.allocator_peaks, outcome.liveness_peaks);
    }
  }
}

// E5M2 keeps two bits of a gradient, an error of up to an eighth each; sums are nearer.
TEST(NarrowTraining, GradientsAreWithinTheFormatsRounding) {
  for (const char* kind : {"llama", "gpt"}) {
    Job exact = narrow_job(kind);
    exact.precision = topologies::Precision::kBf16;
    const Outcome expected = train(exact, plan_of("mb1"), kSteps, kDouble);
    const Outcome outcome = train(narrow_job(kind), plan_of("mb1"), kSteps, kDouble);
    const double apart = spread(outcome.gradients, expected.gradients);
    EXPECT_GT(apart, 0.005) << kind;  // it is in 8 bits
    EXPECT_LT(apart, 0.1) << kind;
    for (std::size_t step = 0; step < outcome.losses.size(); ++step) {
      EXPECT_NEAR(outcome.losses[step] / expected.losses[step], 1, 3e-3) << kind;
    }
    EXPECT_LT(outcome.losses.back(), outcome.losses.front());
  }
}

std::string refusal(const Job& job, const Plan& plan) {
  try {
    static_cast<void>(planner::lower(job, plan, {.widths = {}, .executable = true}));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(NarrowTraining, WhatIsNotComputedInEightBitsIsRefusedByName) {
  Job job = narrow_job("llama");
  EXPECT_EQ(refusal(job, plan_of("mb1")), "");
  job.training.rank = 16;
  job.training.targets = planner::adapter_targets_of("all-linear");
  EXPECT_NE(refusal(job, plan_of("mb1")).find("adapters under fp8"), std::string::npos);
  job = narrow_job("llama");
  job.model.ffn = 72;
  EXPECT_NE(refusal(job, plan_of("mb1")).find("multiples of 16: 72 inner elements"),
            std::string::npos);
  job = narrow_job("llama");
  job.precision = topologies::Precision::kFp4;
  EXPECT_NE(refusal(job, plan_of("mb1")).find("4 bits"), std::string::npos);
}

// Ops of this name in the one role of a program.
std::int64_t ops_named(const Plan& plan, const std::string& name) {
  const StepProgram program =
      planner::lower(narrow_job("llama"), plan, {.widths = {}, .executable = true});
  const Program& role = program.roles.front();
  return std::ranges::count_if(role.ops, [&](const Op& op) { return role.names[op.name] == name; });
}

// An input that nothing but its product reads is cast both ways in forward, and its 16 bits end
// there; one that is repeated or read again is cast anew.
TEST(NarrowTraining, InputsOfProductsAloneAreKeptAsCodes) {
  const Plan kept = plan_of("mb8");
  const Plan repeated = plan_of("mb8", [](Plan& p) { p.recompute = Recompute::kFull; });
  for (const char* name : {"qkv_input_turned", "mlp_up_input_turned", "mlp_down_input_turned"}) {
    EXPECT_EQ(ops_named(kept, name), 0) << name;
    EXPECT_EQ(ops_named(repeated, name), 4) << name;
  }
  EXPECT_EQ(ops_named(kept, "attention_output_input_turned"), 4);
  Job wide = narrow_job("llama");
  const auto peak = [&] {
    const StepProgram program =
        planner::lower(wide, plan_of("mb1"), {.widths = {}, .executable = true});
    return liveness(program, program.roles.front()).peak.value;
  };
  const std::int64_t narrow = peak();
  wide.precision = topologies::Precision::kBf16;
  EXPECT_LT(narrow, peak());
  Job moved = narrow_job("llama");
  EXPECT_NE(planner::kept_codes(moved, kept), planner::KeptCodes{});
  moved.offload.activations = planner::OffloadTo::kHost;  // in 16 bits
  EXPECT_EQ(planner::kept_codes(moved, kept), planner::KeptCodes{});
}

TEST(NarrowTraining, AProgramOfNarrowProductsIsReadBackAsItWasWritten) {
  const StepProgram program =
      planner::lower(narrow_job("llama"), plan_of("mb1"), {.widths = {}, .executable = true});
  EXPECT_TRUE(verify(program).empty());
  EXPECT_EQ(parse_program(print(program), "narrow"), program);
}

}  // namespace
}  // namespace trireme::conformance
