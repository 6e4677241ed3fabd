// Layouts of adapters and frozen layers that the closed form and the program of the same plan once
// told apart, each named for what broke.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/lower/lower.h"
#include "tests/conformance/drawn_plans.h"
#include "tests/conformance/simulated_step.h"

namespace trireme {
namespace {

struct TrainedLayout {
  const char* what_broke;
  const char* model;
  const char* cluster;
  std::int64_t sequence, batch;
  const char* form;
  std::int64_t frozen, rank;
  const char* targets;
  double was;  // estimated over simulated, less 1
  double within;
  bool one_shard = false;  // full sharding over one rank, which no short form says
};
std::ostream& operator<<(std::ostream& out, const TrainedLayout& layout) {
  return out << layout.what_broke;
}

tests::Drawn estimated(const TrainedLayout& layout) {
  tests::Drawn drawn;
  planner::Job& job = drawn.job;
  job.framework = planner::find_framework("trireme");
  job.profile = topologies::shipped_profile();
  job.model = models::load_model(layout.model);
  job.sequence = layout.sequence;
  job.global_batch = layout.batch;
  job.training.frozen_layers = layout.frozen;
  job.training.rank = layout.rank;
  job.training.targets = planner::adapter_targets_of(layout.targets);
  planner::Plan& plan = drawn.plan = planner::parse_short_form(layout.form);
  if (layout.one_shard) {
    plan.sharding = planner::Sharding::kFull;
    plan.reshard_after_forward = false;
  }
  plan.micro_batches = layout.batch / plan.micro_batch / plan.data_parallel();
  job.cluster = topologies::narrowed(topologies::load_cluster(layout.cluster), plan.gpus());
  planner::Estimator(job).estimate(plan, drawn.estimate);
  drawn.program = planner::lower(job, plan);
  return drawn;
}

class TrainedSteps : public testing::TestWithParam<TrainedLayout> {};

TEST_P(TrainedSteps, ClosedFormAndProgramAgree) {
  const tests::Drawn drawn = estimated(GetParam());
  const double simulated = tests::simulated_seconds(drawn.job, drawn.program);
  EXPECT_NEAR(drawn.estimate.time.step_seconds / simulated, 1, GetParam().within)
      << "it was " << 100 * GetParam().was << " % away";
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainedSteps,
    testing::Values(
        TrainedLayout{"ExpertsOfFrozenLayersAreNotReduced", "mixtral-8x7b", "gb200-nvl72", 8192, 8,
                      "tp2.cp4.ep4.etp1.dp4.mb1.rc-full", 27, 0, "all-linear", 0.994, 0.05},
        TrainedLayout{"FrozenUnitsAreNotGatheredInBackward", "llama-2-13b", "dgx-h100x2", 2048, 32,
                      "fsdp16.mb1", 38, 0, "all-linear", 0.424, 0.03},
        TrainedLayout{"AHeadThatSharesAFrozenTableHasNoWeightGradient", "llama-3.2-3b",
                      "gb200-nvl72", 4096, 32, "pp8.mb4", 12, 0, "all-linear", 0.15, 0.03},
        TrainedLayout{"AdaptersAreGatheredBesideTheFrozenWeights", "llama-3.2-3b", "hgx-h200x64",
                      2048, 448, "tp8.cp2.fsdp32.mb2.rc-mlp", 0, 64, "attention", -0.204, 0.08},
        TrainedLayout{"AFrozenTableIsNotSummedOverTheEnds", "gpt3-6.7b", "gb200-nvl72x2", 1024, 64,
                      "pp2.vpp16.cp4.dp16.mb1", 0, 8, "attention", 0.339, 0.06}),
    [](const auto& given) { return std::string(given.param.what_broke); });

class TrainedMemory : public testing::TestWithParam<TrainedLayout> {};

TEST_P(TrainedMemory, ClosedFormAndProgramAgree) {
  const auto difference = tests::memory_difference(estimated(GetParam()));
  ASSERT_TRUE(difference.has_value());
  EXPECT_NEAR(*difference, 0, GetParam().within) << "it was " << 100 * GetParam().was << " % away";
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainedMemory,
    testing::Values(
        TrainedLayout{"FrozenWeightsOfOneRankAreNotGathered", "llama-3.2-3b", "gb200-nvl72", 2048,
                      12, "tp2.mb2", 0, 8, "q,k,v", 0.371, 0.02, true},
        TrainedLayout{"ASplitBackwardLeavesNothingToAFrozenHead", "qwen3-8b", "dgx-h100x8", 8192,
                      160, "tp2.pp4.fsdp2.dp4.mb1.zero1.zb-h1.rc-full", 0, 16, "q,k,v", 0.278,
                      0.02},
        TrainedLayout{"AFrozenTableIsGatheredForTheHeadsBackward", "llama-3.2-3b", "dgx-a100-80gb",
                      4096, 56, "fsdp4.dp2.mb1.rc-full", 0, 32, "q,k,v", -0.183, 0.02},
        TrainedLayout{"RepeatingFrozenLayersSavesNothing", "llama-3.2-1b", "dgx-h100x16", 4096,
                      1024, "tp2.fsdp16.dp4.mb4.rc-full2.nosp", 11, 0, "all-linear", -0.21, 0.02}),
    [](const auto& given) { return std::string(given.param.what_broke); });

}  // namespace
}  // namespace trireme
