// Training in 8 bits on the reference backend: the numbers of core/kernels.h's narrow products, in
// every layout that the runtime has them in; and what a plan says of its time and memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/program_text.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "planner/plan/narrow.h"
#include "tests/conformance/narrow_jobs.h"

namespace trireme::conformance {
namespace {

// In each, or in every so many.
void expect_alike_in_uncut_plans(const Job& job, std::size_t step = 1) {
  const Outcome expected = train(job, plan_of("mb1"), kSteps, kDouble);
  const std::vector<Plan> plans = uncut_plans();
  for (std::size_t i = 0; i < plans.size(); i += step) {
    const Plan& plan = plans[i];
    SCOPED_TRACE(fmt::format("{} {}", job.model.name, planner::short_form(plan)));
    expect_alike(train(job, plan, kSteps, kShuffled), expected);
  }
}

TEST(NarrowTraining, LayoutsThatCutNoTensorOfAMicroBatchTrainAlike) {
  for (const char* kind : {"llama", "gpt"}) {
    expect_alike_in_uncut_plans(narrow_job(kind));
  }
}

TEST(NarrowTraining, ExpertsAndLatentAttentionTrainAlike) {
  expect_alike_in_uncut_plans(expert_job(false, false), 3);
  expect_alike_in_uncut_plans(expert_job(true, true));
  expect_alike_in_uncut_plans(expert_job(false, true), 4);
}

// Ranks that hold different experts have a scale each for those and for the rows that come.
TEST(NarrowTraining, ExpertParallelismTrainsAsNearlyAsRoundingsAllow) {
  for (const bool shared : {false, true}) {
    Job job = expert_job(shared, shared);
    job.sequence = job.model.max_sequence = 32;
    const Outcome expected = train(job, plan_of("mb1"), kSteps, kDouble);
    const auto sequence = [](Plan& p) { p.sequence_parallel = true; };
    const auto apart = [](Plan& p) {
      p.sequence_parallel = true;
      p.expert_tensor = 1;
    };
    for (const Plan& plan :
         {plan_of("ep4.dp4.mb1"),
          plan_of("ep2.fsdp2.mb1", [](Plan& p) { p.sharding = Sharding::kFull; }),
          plan_of("tp2.mb1", sequence), plan_of("tp2.ep2.mb1", apart)}) {
      SCOPED_TRACE(fmt::format("{} {}", job.model.name, planner::short_form(plan)));
      expect_near(train(job, plan, kSteps, kShuffled), expected);
    }
  }
}

TEST(NarrowTraining, ExpertsGradientsAreWithinTheFormatsRounding) {
  Job exact = expert_job(true, true);
  exact.precision = topologies::Precision::kBf16;
  const Outcome expected = train(exact, plan_of("mb1"), kSteps, kDouble);
  const Outcome outcome = train(expert_job(true, true), plan_of("mb1"), kSteps, kDouble);
  const double apart = spread(outcome.gradients, expected.gradients);
  EXPECT_GT(apart, 0.005);
  EXPECT_LT(apart, 0.2);
  EXPECT_NEAR(outcome.losses.back() / expected.losses.back(), 1, 3e-3);
}

// Frozen layers multiply in 8 bits; adapters' own products stay in 16 beside them.
Job partly_trained_job(const char* kind, const char* targets, std::int64_t frozen) {
  Job job = narrow_job(kind);
  job.training.rank = frozen > 0 ? 0 : 3;
  job.training.targets = planner::adapter_targets_of(targets);
  job.training.frozen_layers = frozen;
  return job;
}

TEST(NarrowTraining, AdaptersAndLayersAboveFrozenOnesTrainAlike) {
  expect_alike_in_uncut_plans(partly_trained_job("llama", "all-linear", 0));
  expect_alike_in_uncut_plans(partly_trained_job("gpt", "o,down", 0), 3);
  expect_alike_in_uncut_plans(partly_trained_job("llama", "all-linear", 2));
}

// Nothing is cast for gradients that no one reads.
TEST(NarrowTraining, FrozenWeightsHaveNoTransposesOfInputsAndGradients) {
  for (const Job& job : {partly_trained_job("llama", "all-linear", 0),
                         partly_trained_job("llama", "all-linear", 3)}) {
    const StepProgram program =
        planner::lower(job, plan_of("mb8"), {.widths = {}, .executable = true});
    EXPECT_TRUE(verify(program).empty());
    const Program& role = program.roles.front();
    const auto both = std::ranges::count_if(role.ops, [&](const Op& op) {
      const auto* compute = std::get_if<Compute>(&op.kind);
      return compute != nullptr && role.works[compute->work].kernel == Kernel::kNarrowBoth;
    });
    // Of the one layer that is trained four gradients and three inputs.
    EXPECT_EQ(both, job.training.frozen_layers > 0 ? 4 + 3 : 0);
  }
}

TEST(NarrowTraining, WhatGoesToTheHostComesBackAsItWas) {
  for (const Plan& plan :
       {plan_of("mb1"), plan_of("tp2.mb1"), plan_of("pp2.mb1"), plan_of("fsdp2.mb1", [](Plan& p) {
          p.sharding = Sharding::kFull;
          p.recompute = Recompute::kSelective;
          p.recompute_modules = planner::kMlp;
        })}) {
    for (const std::int64_t rank : {0, 3}) {
      Job job = partly_trained_job("llama", "all-linear", 0);
      job.training.rank = rank;
      const Outcome stay = train(job, plan, kSteps, kShuffled, false);
      job.offload = planner::parse_offload("activations");
      const Outcome moved = train(job, plan, kSteps, kShuffled, false);
      EXPECT_EQ(moved.losses, stay.losses) << planner::short_form(plan);
      EXPECT_EQ(moved.gradient_norms, stay.gradient_norms);
      EXPECT_EQ(moved.parameters, stay.parameters);
      EXPECT_EQ(moved.allocator_peaks, moved.liveness_peaks);
    }
  }
}

// Context ranks have a scale each for their tokens, whatever passes between them, and share the
// weights': the three forms train alike, and near to one rank.
TEST(NarrowTraining, FormsOfContextParallelismTrainAlikeAndNearlyAsOneRank) {
  for (const char* kind : {"llama", "gpt"}) {
    const auto job_of = [&](const char* key, const char* value) {
      Job job = narrow_job(kind);
      job.sequence = job.model.max_sequence = 32;
      job.model.position_rows = 32;
      job.model.layers = 2;
      planner::apply_setting(job.framework, key, value);
      return job;
    };
    const Job gathers = job_of("context_gather", "true");
    const Outcome one = train(gathers, plan_of("mb1"), kSteps, kDouble);
    const Outcome two = train(gathers, plan_of("cp2.mb1"), kSteps, kDouble);
    expect_near(two, one);
    for (const Job& job :
         {gathers, job_of("context_gather", "false"), job_of("context_all_to_all", "true")}) {
      for (const Plan& plan :
           {plan_of("cp2.mb1"), plan_of("cp2.pp2.mb1"), plan_of("cp2.dp2.mb1"),
            plan_of("cp2.fsdp2.mb1", [](Plan& p) { p.sharding = Sharding::kFull; }),
            plan_of("cp2.mb1", [](Plan& p) { p.recompute = Recompute::kFull; })}) {
        SCOPED_TRACE(fmt::format("{} {} gather {} exchange {}", kind, planner::short_form(plan),
                                 job.framework.context_gather, job.framework.context_all_to_all));
        expect_alike(train(job, plan, kSteps, kShuffled), two);
      }
    }
  }
}

// Two tensor ranks have a scale each for their parts.
TEST(NarrowTraining, TensorParallelismTrainsAsNearlyAsRoundingsAllow) {
  for (const char* kind : {"llama", "gpt"}) {
    const Outcome expected = train(narrow_job(kind), plan_of("mb1"), kSteps, kDouble);
    for (const bool sequence : {false, true}) {
      const Plan plan = plan_of("tp2.mb1", [&](Plan& p) { p.sequence_parallel = sequence; });
      SCOPED_TRACE(kind);
      expect_near(train(narrow_job(kind), plan, kSteps, kShuffled), expected);
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
  EXPECT_EQ(refusal(expert_job(true, true), plan_of("mb1")), "");
  job = expert_job(true, true);
  job.model.moe->expert_ffn = 24;
  EXPECT_NE(refusal(job, plan_of("mb1")).find("24 inner elements of an expert"), std::string::npos);
  job = expert_job(true, true);
  job.model.latent->kv_lora = 40;
  EXPECT_NE(refusal(job, plan_of("mb1")).find("40 elements of a key's latent"), std::string::npos);
  job = narrow_job("llama");
  job.model.attention_sinks = true;
  EXPECT_NE(refusal(job, plan_of("mb1")).find("attention sinks under fp8"), std::string::npos);
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

// They were found in every micro-batch, though weights change once a step.
TEST(NarrowTraining, ScalesOfWeightsAreFoundOnceAStep) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    const Plan plan = plan_of("mb1", [&](Plan& p) { p.recompute = recompute; });
    EXPECT_EQ(ops_named(plan, "qkv_input_scale"), (recompute == Recompute::kFull ? 2 : 1) * 4 * 8);
    EXPECT_EQ(ops_named(plan, "qkv_weight_scale"), 4);  // of four layers
    EXPECT_EQ(ops_named(plan, "mlp_down_weight_scale"), 4);
  }
}

TEST(NarrowTraining, AProgramOfNarrowProductsIsReadBackAsItWasWritten) {
  for (const Job& job : {narrow_job("llama"), expert_job(true, true), expert_job(false, false)}) {
    const StepProgram program =
        planner::lower(job, plan_of("mb1"), {.widths = {}, .executable = true});
    EXPECT_TRUE(verify(program).empty());
    EXPECT_EQ(parse_program(print(program), "narrow"), program);
  }
}

}  // namespace
}  // namespace trireme::conformance
