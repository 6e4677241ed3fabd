// Layouts that the closed form and the program of the same plan once told apart, each named for
// what broke: `estimate` against `simulate --no-contention`.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>

#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "tests/conformance/simulated_step.h"

namespace trireme {
namespace {

struct Layout {
  const char* what_broke;
  const char* framework;
  const char* model;
  std::string cluster;
  std::int64_t sequence, batch;
  const char* form;
  double was;  // estimated over simulated, less 1
  double within;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.what_broke;
}

struct StepSeconds {
  double estimated = 0, simulated = 0;
};
StepSeconds seconds_of(const Layout& layout) {
  planner::Job job;
  job.framework = planner::find_framework(layout.framework);
  job.profile = topologies::shipped_profile();
  job.model = models::load_model(layout.model);
  job.cluster = topologies::load_cluster(layout.cluster);
  job.sequence = layout.sequence;
  job.global_batch = layout.batch;
  planner::Plan plan = planner::parse_short_form(layout.form);
  plan.micro_batches = layout.batch / plan.micro_batch / plan.data_parallel();
  const auto broken = planner::check_plan(job, plan);
  EXPECT_FALSE(broken.has_value()) << layout.what_broke;
  planner::Estimate estimate;
  planner::Estimator(job).estimate(plan, estimate);
  return {estimate.time.step_seconds, tests::simulated_seconds(job, planner::lower(job, plan))};
}

class KnownDisagreements : public testing::TestWithParam<Layout> {};

TEST_P(KnownDisagreements, ClosedFormAndProgramAgree) {
  const StepSeconds seconds = seconds_of(GetParam());
  EXPECT_NEAR(seconds.estimated / seconds.simulated, 1, GetParam().within)
      << "it was " << 100 * GetParam().was << " % away";
}

const Layout kLayouts[] = {
    {"CopiesOfContextRanksLieBeyondTheirShards", "fsdp1", "llama-3.1-8b", "dgx-h100x4", 2048, 8,
     "cp4.fsdp2.dp4.mb1", -0.171, 0.01},
    {"LatentAttentionOverContextRanksIsARing", "trireme", "deepseek-v2-lite", "dgx-h100x1", 8192,
     16, "cp4.ep8.fsdp2.mb1", 0.187, 0.05},
    {"LatentAttentionThatIsRepeatedIsARing", "trireme", "deepseek-v2", "dgx-h100x2", 8192, 16,
     "cp8.ep16.fsdp2.mb1.rc-full", 0.284, 0.05},
    {"ASplitBackwardWaitsForTheFirstForwards", "trireme", "llama-3.1-8b", "dgx-h100x4", 1024, 64,
     "pp4.fsdp8.mb1.zero1.zb-h2", -0.073, 0.01},
    {"ReductionsOfAStageHoldTheStageBefore", "fsdp2", "llama-3.2-3b", "l40sx2", 2048, 16,
     "pp2.fsdp8.mb1", -0.347, 0.01},
    {"ReductionsOfAllStagesHoldTheFirst", "accelerate", "llama-3.2-3b", "l40sx4", 2048, 32,
     "pp4.fsdp8.mb1", -0.38, 0.01},
    {"ComputeBesideReductionsHoldsTheStageBefore", "fsdp2", "gpt3-175b", "hgx-h200x16", 1024, 128,
     "tp4.pp8.dp4.mb4", -0.115, 0.02},
    {"InputsAreGatheredWhenAHalfsBackwardBegins", "trireme", "llama-3.2-3b", "gb200-nvl72", 2048,
     180, "tp8.fsdp9.mb1", 0.067, 0.02},
    {"GroupedProductsAreRepeatedByThePolicyPerOp", "fsdp2", "mixtral-8x7b", "hgx-h200x4", 4096, 64,
     "pp4.ep8.dp8.mb1.rc-op", 0.14, 0.01},
    {"UnevenStagesOfASplitBackwardAreNoneAsSlowAsTheSlowest", "fsdp2", "llama-3.2-3b",
     "dgx-h100x16", 8192, 32, "tp4.pp8.dp4.mb1.zb-h1.nosp", 0.103, 0.05},
    {"ASendUnderZeroBubbleHoldsNoComputation", "trireme", "llama-3.2-3b", "dgx-a100-80gbx128", 2048,
     1536, "tp8.pp8.fsdp8.dp2.mb2.zero1.zb-h2.rc-selective.nosp", -0.1115, 0.04},
    {"ChunksThatAreLetGoAreGatheredAgain", "fsdp1", "llama-2-13b", "hgx-h200x64", 1024, 512,
     "tp2.pp2.vpp2.cp4.fsdp32.mb2.zero2", -0.147, 0.02},
    {"RecomputeRunsBesideTheMessage", "trireme", "qwen3-30b-a3b", "hgx-h200x8", 8192, 128,
     "pp4.vpp12.ep4.fsdp4.dp4.mb2.rc-core_attn+layernorm+mlp", 0.099, 0.06},
    {"ChunksThatRepeatOneLayerEach", "accelerate", "llama-3.1-8b", "a40x4", 2048, 2,
     "tp4.pp8.vpp4.mb1.rc-full", 0.259, 0.07},
    {"ADrainRepeatsEveryStagesLayers", "accelerate", "llama-3.1-8b", "a40x4", 2048, 2,
     "tp4.pp8.mb1.rc-full", 0.082, 0.04},
    {"AHostThatSetsThePaceTakesItsTimeBesideExchangesToo", "fsdp2", "llama-3.2-1b", "dgx-h100x16",
     16384, 32, "tp8.cp2.dp8.mb2.rc-layernorm+mlp", 0.096, 0.015},
    {"UnitsOfAPipelineOfPyTorchAreThePlans", "fsdp2", "gpt3-6.7b", "hgx-h200x64", 1024, 1024,
     "pp2.cp4.fsdp16.dp4.mb2.unit2", -0.064, 0.04},
    {"AHeadKeepsTheOtherChunksWaiting", "fsdp1", "llama-3.2-1b", "dgx-h100x1", 2048, 16,
     "tp2.pp4.vpp4.mb2", -0.083, 0.02},
    {"ExpertsOfAUnitsLayersAreOneUnitForTheHost", "deepspeed", "mixtral-8x7b", "dgx-h100x32", 4096,
     256, "tp8.ep4.fsdp16.dp2.mb1.rc-core_attn+layernorm.unit2", 0.149, 0.02},
    {"SumsOfPyTorchsKeysRunBesideTheirExchange", "fsdp2", "llama-3.1-8b", "dgx-a100-80gbx32", 32768,
     64, "tp8.cp8.dp4.mb4.rc-full.nosp", 0.084, 0.07},
    {"TheHostIssuesRecomputeAhead", "fsdp2", "bloom-3b", "gh200x32", 2048, 8,
     "tp2.pp8.vpp4.cp2.mb1.rc-full", 0.11, 0.06},
    {"TheHostOfARingsAttentionIsCountedOnce", "megatron", "qwen3-8b", "dgx-h100x8", 8192, 28,
     "tp8.cp2.dp4.mb1", -0.169, 0.02},
    {"HooksAreOfUnitsWithinAChunk", "torchtitan", "llama-2-13b", "hgx-h200x4", 1024, 256,
     "tp2.pp4.vpp10.fsdp4.mb1.unit4", -0.041, 0.02},
    {"OfAFewMicroBatchesAllWaitForTheLongestChunk", "megatron", "llama-3.2-1b", "hgx-h200x4", 4096,
     4, "tp8.pp4.vpp2.mb1", -0.065, 0.02},
    {"LayersThatKeepAllRepeatNothing", "torchtitan", "qwen2.5-1.5b", "dgx-h100x4", 4096, 128,
     "tp2.fsdp4.dp4.mb1.rc-full12", -0.175, 0.01},
    {"ATurnOfChunksWaitsForOneMessageNotForTwo", "trireme", "llama-3.1-8b", "gcp-a2-megagpux4",
     4096, 64, "tp16.pp4.vpp8.mb1", 0.513, 0.01},
    {"RepeatedChunksBeginWhenTheLastMessageHasLeft", "trireme", "llama-3.1-8b", "gcp-a2-megagpux2",
     4096, 64, "tp16.pp2.vpp16.mb1.rc-full", 0.359, 0.01},
    {"OneGroupGoesRoundAllRanksForEveryChunk", "trireme", "gpt3-175b", "gcp-a2-megagpux8", 2048, 8,
     "tp16.pp8.vpp2.mb1", -0.082, 0.01},
    {"ReductionsThatDoNotOverlapFollowTheLastBackward", "zero-bubble", "llama-3.1-8b", "dgx-h100x4",
     2048, 16, "tp2.fsdp8.dp2.mb1.zero1", 0.288, 0.01},
    {"RanksThatShareExpertsSortAllTheirTokens", "trireme", "qwen3-30b-a3b", "dgx-h100x1", 4096, 16,
     "tp4.dp2.mb1", -0.057, 0.03},
    {"SharedExpertsGatherAndSumOverTensorRanks", "trireme", "deepseek-v2-lite", "dgx-h100x1", 4096,
     16, "tp4.dp2.mb1", -0.141, 0.03},
    {"ChunksAreLateWhileTheOtherRanksAre", "torchtitan", "llama-3.1-8b", "l40sx2", 1024, 32,
     "tp2.pp2.vpp4.fsdp4.mb2", 0.28, 0.03},
    {"ReductionsRunBesideChunksThatWaitForMessages", "internevo", "qwen3-8b", "gcp-a2-megagpux4",
     2048, 128, "pp2.vpp6.fsdp8.dp4.mb2.zero1", 0.208, 0.01},
    {"ExchangesCoverSharedExpertsAndWeightGradients", "trireme", "deepseek-v2-lite", "dgx-h100x4",
     4096, 32, "ep16.fsdp32.mb1", 0.087, 0.03}};
INSTANTIATE_TEST_SUITE_P(Of, KnownDisagreements, testing::ValuesIn(kLayouts),
                         [](const auto& given) { return std::string(given.param.what_broke); });

// A forward that is repeated is part of autograd's backward, which starts from the gradient: one
// micro-batch passes four stages as it passes the same layers on one GPU. The program repeated each
// stage's last layer, here its only one, while the gradient was on its way. This project's runtime
// does that.
TEST(RepeatedForwards, StartWhenTheGradientIsThere) {
  for (const auto& [framework, hidden] : {std::pair{"megatron", false}, {"trireme", true}}) {
    planner::Job job;
    job.framework = planner::find_framework(framework);
    job.profile = topologies::shipped_profile();
    job.model = models::load_model("llama-3.1-8b");
    job.model.layers = 4;
    job.sequence = 8192;
    job.global_batch = 1;
    const auto seconds = [&job](const char* form) {
      const planner::Plan plan = planner::parse_short_form(form);
      job.cluster = topologies::narrowed(topologies::load_cluster("dgx-h100"), plan.gpus());
      return tests::simulated_seconds(job, planner::lower(job, plan));
    };
    const double repeated = seconds("mb1.rc-full") - seconds("mb1");
    const double stages = seconds("pp4.mb1.rc-full") - seconds("pp4.mb1");
    EXPECT_NEAR(stages / repeated, hidden ? 0.25 : 1, 0.1) << framework;
  }
}

std::string two_nodes(const std::string& first, const std::string& second) {
  const std::string node = R"("node": {"gpus": 8, "fabric": "nvswitch", "nics": 8,
      "nic": "400 Gbit/s", "gpus_per_pcie_switch": 1}})";
  return R"({"format": "trireme.topology/1", "name": "two", "network": "NDR InfiniBand",
    "groups": [{"nodes": 1, "gpu": ")" +
         first + "\", " + node + R"(, {"nodes": 1, "gpu": ")" + second + "\", " + node + "]}";
}

// Each op took what it takes on the slower card, with the fast card's waits for its host: a fifth
// slower than the slow card alone.
TEST(MixedCards, AreAsFastAsTheSlowOnesAlone) {
  for (const char* framework : {"deepspeed", "fsdp2", "trireme"}) {
    Layout layout{"",   framework, "llama-3.1-8b", two_nodes("A100-SXM4-80GB", "H100-SXM5-80GB"),
                  2048, 32,        "fsdp16.mb1",   0,
                  0};
    const StepSeconds mixed = seconds_of(layout);
    layout.cluster = two_nodes("A100-SXM4-80GB", "A100-SXM4-80GB");
    EXPECT_NEAR(mixed.simulated / seconds_of(layout).simulated, 1, 0.005) << framework;
    EXPECT_NEAR(mixed.estimated / mixed.simulated, 1, 0.03) << framework;
  }
}

}  // namespace
}  // namespace trireme
