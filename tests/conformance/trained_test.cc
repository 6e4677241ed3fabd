// What of a model is trained is the same in every layout: adapters beside frozen weights, and
// layers above frozen ones, in double precision; and nothing frozen has a gradient, a state or a
// backward below the lowest that is trained.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "runtime/cpu/threads.h"
#include "runtime/train.h"
#include "tests/conformance/training.h"

namespace trireme::conformance {
namespace {

using planner::Job;
using planner::Plan;
using planner::Recompute;
using planner::Schedule;
using planner::Sharding;

constexpr std::int64_t kBatch = 8;

struct Layout {
  const char* form = nullptr;
  std::int64_t micro_batch = 1;
  Sharding sharding = Sharding::kNone;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;
  bool reshard = true;
  std::int64_t unit = 1, chunks = 1;
  const char* setting = "";
};

constexpr auto kTokens = Recompute::kSelective;
constexpr std::uint16_t kModules = planner::kLayerNorm | planner::kMlp | planner::kCoreAttention;
constexpr Layout kLayouts[] = {
    {.form = "mb1", .micro_batch = 4},
    {.form = "mb1", .micro_batch = 2, .recompute = Recompute::kFull},
    {.form = "mb1", .micro_batch = 2, .recompute = kTokens},
    {.form = "dp4"},
    {.form = "dp2", .setting = "reduce_every_micro_batch"},
    {.form = "tp2", .micro_batch = 4},
    {.form = "tp4", .micro_batch = 4},
    {.form = "tp2", .micro_batch = 4, .sequence_parallel = true},
    {.form = "tp2", .recompute = Recompute::kFull, .sequence_parallel = true},
    {.form = "tp2", .sequence_parallel = true, .setting = "regather_in_backward"},
    {.form = "tp2.dp2", .recompute = kTokens, .sequence_parallel = true},
    {.form = "fsdp4", .sharding = Sharding::kOptimizer},
    {.form = "fsdp4", .sharding = Sharding::kGradients},
    {.form = "fsdp4", .sharding = Sharding::kFull},
    {.form = "fsdp2", .sharding = Sharding::kFull, .reshard = false, .unit = 2},
    {.form = "fsdp4", .sharding = Sharding::kFull, .unit = 0},
    {.form = "dp2.fsdp2", .sharding = Sharding::kFull, .recompute = Recompute::kFull},
    {.form = "fsdp2", .sharding = Sharding::kFull, .setting = "root_unit_stays_gathered"},
    {.form = "tp2.fsdp2", .sharding = Sharding::kFull, .sequence_parallel = true},
    {.form = "tp2.fsdp2", .sharding = Sharding::kOptimizer},
    {.form = "pp2", .micro_batch = 2},
    {.form = "pp4"},
    {.form = "pp4", .schedule = Schedule::kGpipe},
    {.form = "pp2", .schedule = Schedule::kZeroBubbleH1},
    {.form = "pp2.dp2", .schedule = Schedule::kZeroBubbleH2},
    {.form = "pp2", .schedule = Schedule::kInterleaved, .chunks = 2},
    {.form = "tp2.pp2", .sequence_parallel = true},
    {.form = "pp2.fsdp2", .sharding = Sharding::kFull},
    {.form = "tp2.pp2.fsdp2", .sharding = Sharding::kGradients, .sequence_parallel = true},
    {.form = "cp2.dp2"},
    {.form = "cp2.fsdp2", .sharding = Sharding::kFull}};

Plan plan_of(const Layout& layout) {
  Plan plan = planner::parse_short_form(layout.form);
  plan.micro_batch = layout.micro_batch;
  plan.micro_batches = kBatch / (plan.data_parallel() * layout.micro_batch);
  plan.sharding = layout.sharding;
  plan.schedule = layout.schedule;
  plan.virtual_pipeline = layout.chunks;
  plan.recompute = layout.recompute;
  plan.recompute_modules = kModules;
  plan.sequence_parallel = layout.sequence_parallel;
  plan.reshard_after_forward = layout.reshard;
  plan.fsdp_unit = layout.unit;
  return plan;
}

Job job_of(const std::string& kind, const planner::Training& training) {
  Job job = small_job(small_model(kind), "trireme");
  job.training = training;
  return job;
}

planner::Training adapters(const char* targets, std::int64_t rank = 3) {
  planner::Training training;
  training.rank = rank;
  training.targets = planner::adapter_targets_of(targets);
  return training;
}

planner::Training frozen(std::int64_t layers) {
  planner::Training training;
  training.frozen_layers = layers;
  return training;
}

void expect_same(const Job& job, const Layout& layout, const Outcome& one) {
  SCOPED_TRACE(fmt::format("{} {} {} {} {}", job.model.name, layout.form,
                           planner::to_string(layout.schedule),
                           planner::to_string(layout.recompute), layout.setting));
  Job written = job;
  if (const std::string setting = layout.setting; !setting.empty()) {
    planner::apply_setting(written.framework, setting,
                           setting == "regather_in_backward" ? "false" : "true");
  }
  const Outcome outcome = train(written, plan_of(layout), 3, kShuffled);
  ASSERT_EQ(outcome.losses.size(), one.losses.size());
  EXPECT_NEAR(outcome.losses[0] / one.losses[0], 1, 1e-12);
  EXPECT_NEAR(outcome.gradient_norms[0] / one.gradient_norms[0], 1, 1e-10);
  EXPECT_LE(largest_difference(outcome.gradients, one.gradients, 1e-3), 1e-10);
  EXPECT_LE(largest_difference(outcome.parameters, one.parameters, 1e-3), 1e-8);
  EXPECT_EQ(outcome.allocator_peaks, outcome.liveness_peaks);
}

void expect_same_in_all_layouts(const Job& job) {
  const Outcome one = train(job, plan_of({.form = "mb1", .micro_batch = kBatch}), 3, kShuffled);
  ASSERT_FALSE(one.gradients.empty());
  for (const auto& [name, gradient] : one.gradients) {
    EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](double g) { return g != 0; }))
        << name;
  }
  for (const Layout& layout : kLayouts) {
    expect_same(job, layout, one);
  }
}

TEST(Trained, AdaptersAreTheSameInEveryLayout) {
  for (const char* kind : {"llama", "gpt"}) {
    expect_same_in_all_layouts(job_of(kind, adapters("all-linear")));
  }
}

TEST(Trained, LayersAboveFrozenOnesAreTheSameInEveryLayout) {
  for (const char* kind : {"llama", "qwen"}) {  // untied and tied
    expect_same_in_all_layouts(job_of(kind, frozen(3)));
  }
}

TEST(Trained, AdaptersAboveFrozenLayersAreTheSameInEveryLayout) {
  planner::Training training = adapters("attention", 2);
  training.frozen_layers = 3;
  expect_same_in_all_layouts(job_of("gpt", training));
}

// Where backward ends early in the lowest layer.
TEST(Trained, AdaptersOfSomeProductsAreTheSameInEveryLayout) {
  for (const char* targets : {"down", "gate,up", "o", "o,down", "q,k,v"}) {
    const Job job = job_of("llama", adapters(targets));
    const Outcome one = train(job, plan_of({.form = "mb1", .micro_batch = kBatch}), 3, kShuffled);
    for (const char* form : {"mb1", "tp2", "fsdp2", "pp2"}) {
      Layout layout{.form = form, .sequence_parallel = std::string(form) == "tp2"};
      layout.sharding = std::string(form) == "fsdp2" ? Sharding::kFull : Sharding::kNone;
      expect_same(job, layout, one);
    }
  }
}

StepProgram lowered(Job job, const Plan& plan) {
  job.cluster.gpus = plan.gpus();
  return planner::lower(job, plan, {.widths = {}, .executable = true});
}

std::int64_t count_ops(const Program& role, Phase phase, std::int32_t below_layer) {
  return std::count_if(role.ops.begin(), role.ops.end(), [&](const Op& op) {
    return op.origin.phase == phase && op.origin.layer < below_layer && op.origin.layer >= 0;
  });
}

void expect_states(const StepProgram& program,
                   const std::function<bool(const std::string&)>& is_trained) {
  EXPECT_TRUE(verify(program).empty());
  for (const Program& role : program.roles) {
    for (const Parameter& parameter : role.parameters) {
      const auto& states = role.units[parameter.unit].states;
      for (const State state :
           {State::kMaster, State::kMoment1, State::kMoment2, State::kGradient}) {
        EXPECT_EQ(states[static_cast<std::size_t>(state)].operand.count > 0,
                  is_trained(parameter.name))
            << parameter.name << " " << to_string(state);
      }
    }
  }
}

TEST(Trained, NothingFrozenHasStatesOrGradients) {
  expect_states(lowered(job_of("llama", adapters("all-linear")),
                        plan_of({.form = "fsdp2", .sharding = Sharding::kFull})),
                [](const std::string& name) { return name.find("lora") != std::string::npos; });
  expect_states(lowered(job_of("llama", frozen(3)), plan_of({.form = "pp4"})),
                [](const std::string& name) {
                  return name.starts_with("head") || name.starts_with("final") ||
                         (name.starts_with("layers.") && name[7] >= '3');
                });
}

TEST(Trained, NoBackwardRunsBelowTheLowestTrainedLayer) {
  const StepProgram program = lowered(job_of("llama", frozen(3)), plan_of({.form = "pp4"}));
  ASSERT_EQ(program.roles.size(), 4U);
  for (const Phase phase : {Phase::kBackward, Phase::kWeightGradient, Phase::kRecompute}) {
    for (const Program& role : program.roles) {
      EXPECT_EQ(count_ops(role, phase, 3), 0);
    }
  }
  EXPECT_GT(count_ops(program.roles[1], Phase::kBackward, 4), 0);
  // Layers 0 and 1: no gradient comes.
  for (const Op& op : program.roles[0].ops) {
    EXPECT_FALSE(std::holds_alternative<Recv>(op.kind));
  }
}

runtime::TrainSettings steps_of(std::int64_t steps, const std::string& save = "",
                                const std::string& resume = "") {
  runtime::TrainSettings settings;
  settings.steps = steps;
  settings.learning_rate = 1e-2;
  settings.save_folder = save;
  settings.resume_folder = resume;
  return settings;
}

// Of each step, on as many threads as the layout has ranks.
std::vector<double> losses_of(Job job, const Layout& layout,
                              const runtime::TrainSettings& settings) {
  const Plan plan = plan_of(layout);
  job.cluster.gpus = plan.gpus();
  const StepProgram program = planner::lower(job, plan, {.widths = {8, 8, 4}, .executable = true});
  const auto tokens = runtime::synthetic_tokens(settings.seed, job.model.vocab);
  std::vector<double> losses;
  runtime::cpu::run_on_threads(
      program, kShuffled, Seconds(3600), [&](runtime::cpu::ThreadRank& self) {
        runtime::train(self.executor, self.coordinator, *tokens, settings,
                       [&](std::int64_t /*step*/, const runtime::StepResults& results) {
                         losses.push_back(runtime::loss_of(results));
                       });
      });
  return losses;
}

TEST(Trained, CheckpointsHoldWhatWasTrainedAndResumeUnderAnotherLayout) {
  const std::string folder = testing::TempDir() + "trained_checkpoint";
  for (const planner::Training& training : {adapters("all-linear"), frozen(3)}) {
    const Job job = job_of("llama", training);
    const Layout one{.form = "mb1", .micro_batch = kBatch};
    const std::vector<double> whole = losses_of(job, one, steps_of(4));
    losses_of(job, {.form = "fsdp2", .sharding = Sharding::kFull}, steps_of(2, folder));
    const std::vector<double> rest = losses_of(job, {.form = "tp2"}, steps_of(2, "", folder));
    ASSERT_EQ(rest.size(), 2U);
    EXPECT_NEAR(rest[0] / whole[2], 1, 1e-10);
    EXPECT_NEAR(rest[1] / whole[3], 1, 1e-10);
    const std::string held = read_file(folder + "/step-2/checkpoint.json", "a checkpoint");
    EXPECT_EQ(held.find("layers.0.attention.q.weight"), std::string::npos);
    EXPECT_NE(held.find(training.rank > 0 ? "layers.0.attention.qkv.lora_a.weight"
                                          : "layers.3.attention.q.weight"),
              std::string::npos);
    // What was frozen there cannot be trained on from it.
    try {
      losses_of(job_of("llama", {}), one, steps_of(1, "", folder));
      ADD_FAILURE() << "resumed what was frozen";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("did not train it"), std::string::npos)
          << error.what();
    }
    std::filesystem::remove_all(folder);
  }
}

TEST(Trained, WhatNoProgramIsWrittenForIsRefusedByName) {
  const auto refusal = [](const Job& job) -> std::string {
    try {
      lowered(job, plan_of({.form = "mb1"}));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto expect_named = [](const std::string& text, const char* name) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  };
  expect_named(refusal(job_of("llama", adapters("q,v"))), "adapters on a part of q,k,v");
  expect_named(refusal(job_of("llama", adapters("up"))), "adapters on a part of gate,up");
  EXPECT_EQ(refusal(job_of("gpt", adapters("up"))), "");
  expect_named(refusal(job_of("llama", adapters("head"))), "an adapter on the head");
  planner::Training quantised = adapters("all-linear");
  quantised.base = planner::BaseFormat::kNf4Double;
  expect_named(refusal(job_of("llama", quantised)), "a base stored in nf4-double");
  Job other = job_of("llama", adapters("all-linear"));
  other.framework = planner::find_framework("fsdp2");
  EXPECT_EQ(refusal(other), "");  // run as this runtime does
  try {
    planner::lower(other, plan_of({.form = "mb1"}));
    ADD_FAILURE() << "simulated as " << other.framework.name;
  } catch (const Error& error) {
    expect_named(error.what(), "adapters as fsdp2 trains them");
  }
}

}  // namespace
}  // namespace trireme::conformance
