// Training in 8 bits with scales from earlier steps and with a scale for each block of 128: what
// layouts must agree on, and how near it stays to 16 bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/program_text.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "tests/conformance/narrow_jobs.h"

namespace trireme::conformance {
namespace {

Job with_recipe(Job job, const std::string& recipe) {
  planner::apply_setting(job.framework, "fp8_recipe", recipe);
  return job;
}

Job delayed(Job job, std::int64_t history = 2) {
  job.framework.fp8_history = history;
  return with_recipe(std::move(job), "delayed");
}

// Extents of whole 128 on each of two tensor ranks, heads and inner elements among them.
Job block_job(const std::string& kind) {
  Job job = with_recipe(narrow_job(kind), "blockwise");
  job.model.layers = 2;
  job.model.hidden = job.model.ffn = 256;
  job.model.heads = job.model.kv_heads = 8;
  job.model.head_dim = 32;
  job.sequence = job.model.max_sequence = job.model.position_rows = 128;
  job.global_batch = 2;
  return job;
}

Plan block_plan(
    const std::string& form, const std::function<void(Plan&)>& choose = [](Plan&) {}) {
  Plan plan = plan_of(form, choose);
  plan.micro_batches = 2 / (plan.data_parallel() * plan.micro_batch);
  return plan;
}

// Scales of earlier steps are of whole tensors and of the whole batch: no layout has others.
TEST(DelayedScaling, EveryLayoutTrainsAlike) {
  for (const std::string kind : {"llama", "gpt"}) {
    const Job job = delayed(narrow_job(kind));
    const Outcome expected = train(job, plan_of("mb1"), kSteps, kDouble);
    std::vector<Plan> plans = {
        plan_of("tp2.dp2.pp2.mb1", [](Plan& p) { p.sequence_parallel = true; })};
    if (kind == "llama") {
      plans.push_back(plan_of("mb4", [](Plan& p) { p.recompute = Recompute::kFull; }));
      plans.push_back(plan_of("tp2.mb1"));
      plans.push_back(plan_of("fsdp4.mb1", [](Plan& p) { p.sharding = Sharding::kFull; }));
      plans.push_back(plan_of("pp2.mb1", [](Plan& p) { p.schedule = Schedule::kZeroBubbleH1; }));
    }
    for (const Plan& plan : plans) {
      SCOPED_TRACE(fmt::format("{} {}", kind, planner::short_form(plan)));
      expect_alike(train(job, plan, kSteps, kShuffled), expected);
    }
  }
}

TEST(DelayedScaling, ExpertsLatentAttentionAndContextRanksTrainAlike) {
  Job job = delayed(expert_job(true, true));
  job.sequence = job.model.max_sequence = 32;
  const Outcome expected = train(job, plan_of("mb1"), kSteps, kDouble);
  for (const Plan& plan :
       {plan_of("ep4.dp4.mb1"), plan_of("tp2.mb1", [](Plan& p) { p.sequence_parallel = true; }),
        plan_of("ep2.fsdp2.mb1", [](Plan& p) { p.sharding = Sharding::kFull; }),
        plan_of("pp2.mb1")}) {
    SCOPED_TRACE(planner::short_form(plan));
    expect_alike(train(job, plan, kSteps, kShuffled), expected);
  }
  Job dense = delayed(narrow_job("llama"));
  dense.sequence = dense.model.max_sequence = 32;
  planner::apply_setting(dense.framework, "context_gather", "true");
  expect_alike(train(dense, plan_of("cp2.mb1"), kSteps, kShuffled),
               train(dense, plan_of("mb1"), kSteps, kDouble));
}

// The first step knows no scale and has 1, the second that of the first.
TEST(DelayedScaling, ScalesAreThoseOfEarlierSteps) {
  const Job job = delayed(narrow_job("llama"), 1);
  const Outcome now = train(narrow_job("llama"), plan_of("mb1"), 1, kDouble);
  const Outcome first = train(job, plan_of("mb1"), 1, kDouble);
  EXPECT_NE(first.gradients, now.gradients);
  const Outcome longer = train(delayed(narrow_job("llama"), 3), plan_of("mb1"), 4, kDouble);
  const Outcome shorter = train(job, plan_of("mb1"), 4, kDouble);
  EXPECT_EQ(longer.losses[0], shorter.losses[0]);
  EXPECT_EQ(longer.losses[1], shorter.losses[1]);  // both know the first step alone
  EXPECT_NE(longer.losses[3], shorter.losses[3]);
  EXPECT_NEAR(longer.losses[3] / shorter.losses[3], 1, 1e-3);
  EXPECT_LT(longer.losses.back(), longer.losses.front());
}

// Parts that tensor ranks cut in whole blocks have the same scales as the whole.
TEST(BlockScaling, EveryLayoutOfWholeBlocksTrainsAlike) {
  for (const std::string kind : {"llama", "gpt"}) {
    const Job job = block_job(kind);
    const Outcome expected = train(job, block_plan("mb1"), 2, kDouble);
    std::vector<Plan> plans = {block_plan("tp2.mb1", [](Plan& p) { p.sequence_parallel = true; })};
    if (kind == "llama") {
      plans.push_back(block_plan("tp2.mb2"));
      plans.push_back(block_plan("pp2.mb1"));
      plans.push_back(block_plan("fsdp2.mb1", [](Plan& p) {
        p.sharding = Sharding::kFull;
        p.recompute = Recompute::kFull;
      }));
    }
    for (const Plan& plan : plans) {
      SCOPED_TRACE(fmt::format("{} {}", kind, planner::short_form(plan)));
      expect_alike(train(job, plan, 2, kShuffled), expected);
    }
  }
}

// E4M3 keeps three bits of gradients too, E5M2 two; weights and inputs are rounded alike.
TEST(BlockScaling, GradientsAreNearerThanWithOneScaleATensor) {
  const Plan plan = block_plan("mb1");
  Job exact = block_job("llama");
  exact.precision = topologies::Precision::kBf16;
  const Outcome expected = train(exact, plan, 1, kDouble);
  const double blocks =
      spread(train(block_job("llama"), plan, 1, kDouble).gradients, expected.gradients);
  const double tensors =
      spread(train(with_recipe(block_job("llama"), "tensorwise"), plan, 1, kDouble).gradients,
             expected.gradients);
  EXPECT_GT(blocks, 0.005);
  EXPECT_LT(blocks, 0.95 * tensors);
}

std::string refused(const Job& job, const Plan& plan) {
  try {
    static_cast<void>(planner::lower(job, plan, {.widths = {}, .executable = true}));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BlockScaling, WhatIsNotMadeOfWholeBlocksIsRefusedByName) {
  EXPECT_EQ(refused(block_job("llama"), block_plan("mb1")), "");
  Job job = block_job("llama");
  job.model.ffn = 192;
  EXPECT_NE(refused(job, block_plan("mb1")).find("multiples of 128: 192 inner elements"),
            std::string::npos);
  job = with_recipe(expert_job(true, false), "blockwise");
  EXPECT_NE(refused(job, plan_of("mb1")).find("routed experts under fp8_recipe=blockwise"),
            std::string::npos);
  Job other = small_job(wide_model("llama"), "megatron");
  EXPECT_THROW(planner::apply_setting(other.framework, "fp8_recipe", "blockwise"), Error);
  EXPECT_THROW(planner::apply_setting(job.framework, "fp8_recipe", "mxfp8"), Error);
}

TEST(NarrowRecipes, ProgramsAreReadBackAsTheyWereWritten) {
  for (const auto& [job, plan] : {std::pair{delayed(narrow_job("llama")), plan_of("dp2.tp2.mb1")},
                                  {delayed(expert_job(true, true)), plan_of("mb1")},
                                  {block_job("gpt"), block_plan("mb1")}}) {
    const StepProgram program = planner::lower(job, plan, {.widths = {}, .executable = true});
    EXPECT_TRUE(verify(program).empty());
    EXPECT_EQ(parse_program(print(program), "narrow"), program);
  }
}

}  // namespace
}  // namespace trireme::conformance
