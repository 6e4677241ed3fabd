// Plans for cards of several kinds: stages by the speed of their cards, simulated, beside even ones
// and beside every split there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "models/presets.h"
#include "planner/lower/lower.h"
#include "planner/plan/stage_groups.h"
#include "planner/plan/stages.h"
#include "planner/search/search.h"
#include "planner/walk/step_times.h"
#include "planner/walk/walk.h"
#include "sim/simulate.h"

namespace trireme::sim {
namespace {

using planner::Estimate;
using planner::Estimator;
using planner::Job;
using planner::Plan;

// Nodes of one card each, on 400 Gbit/s.
std::string cards(const std::string& first, int nodes, const std::string& second, int gpus) {
  const std::string node = R"("node": {"gpus": )" + std::to_string(gpus) + R"(, "fabric": ")" +
                           (gpus > 1 ? "nvswitch" : "pcie") + R"(", "nics": )" +
                           std::to_string(gpus) +
                           R"(, "nic": "400 Gbit/s", "gpus_per_pcie_switch": 1}})";
  return R"({"format": "trireme.topology/1", "name": "mixed", "network": "NDR InfiniBand",
    "groups": [{"nodes": )" +
         std::to_string(nodes) + R"(, "gpu": ")" + first + "\", " + node +
         ", {\"nodes\": " + std::to_string(nodes) + R"(, "gpu": ")" + second + "\", " + node + "]}";
}

Job job_on(const std::string& cluster, const char* model, std::int64_t batch) {
  Job job;
  job.model = models::load_model(model);
  job.cluster = topologies::load_cluster(cluster);
  job.framework = planner::find_framework("megatron");
  job.profile = topologies::shipped_profile();
  job.sequence = 4096;
  job.global_batch = batch;
  return job;
}

double simulated_seconds(const Job& job, const Plan& plan) {
  const StepProgram program = planner::lower(job, plan);
  SimulateOptions options;
  options.record_trace = false;
  const Simulation result =
      simulate(program, planner::time_ops(job, program), job.cluster, options);
  EXPECT_EQ(result.deadlock, "");
  return to_seconds(result.step).value;
}

// Micro-batches pass the slowest stage one after the other; the first of them passes the others
// too.
double hand_count(const Job& job, const Plan& plan) {
  planner::TimeModel model(job);
  double sum = 0;
  double slowest = 0;
  for (const auto& stage : model.stage_times(plan)) {
    const double one =
        stage.forward + stage.input_gradient + stage.weight_gradient + stage.recompute;
    sum += one;
    slowest = std::max(slowest, one);
  }
  return sum + static_cast<double>(plan.micro_batches - 1) * slowest;
}

Plan two_stages(const Job& job, std::int64_t first) {
  Plan plan;
  plan.tensor = job.cluster.gpus > 2 ? 8 : 1;
  plan.sequence_parallel = plan.tensor > 1;
  plan.pipeline = 2;
  plan.sharded = job.cluster.gpus / plan.tensor / 2;
  plan.sharding = plan.sharded > 1 ? planner::Sharding::kOptimizer : planner::Sharding::kNone;
  plan.micro_batches = job.global_batch / plan.sharded;
  plan.stage_layers = {first, job.model.layers - first};
  return plan;
}

class Mixed : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Mixed, StagesBySpeedBeatEvenOnesByWhatAHandCountSays) {
  const auto [first, second] = GetParam();
  const Job job = job_on(cards(first, 1, second, 8), "llama-3.1-8b", 64);
  planner::SearchOptions options;
  options.constraints = {planner::parse_constraint("tp=8"), planner::parse_constraint("pp=2"),
                         planner::parse_constraint("vpp=1"), planner::parse_constraint("mb=1")};
  const planner::SearchResult found = planner::search(job, options);
  ASSERT_TRUE(found.best.has_value());
  const Plan& best = found.best->plan;
  Plan even = best;
  even.stage_layers = {job.model.layers / 2, job.model.layers / 2};
  const double gain = simulated_seconds(job, even) / simulated_seconds(job, best);
  EXPECT_GT(gain, 1.1) << planner::short_form(best);
  EXPECT_NEAR(gain, hand_count(job, even) / hand_count(job, best), 0.03 * gain);
}
INSTANTIATE_TEST_SUITE_P(Cards, Mixed,
                         testing::Values(std::pair{"A100-SXM4-80GB", "H100-SXM5-80GB"},
                                         std::pair{"H100-SXM5-80GB", "H20-96GB"}));

TEST(MixedCards, TheSplitIsTheBestOfAll) {
  const Job job = job_on(cards("A100-SXM4-80GB", 1, "H100-SXM5-80GB", 1), "llama-3.2-1b", 32);
  planner::SearchOptions options;
  options.constraints = {planner::parse_constraint("pp=2"), planner::parse_constraint("vpp=1")};
  const planner::SearchResult found = planner::search(job, options);
  ASSERT_TRUE(found.best.has_value());
  Estimator estimator(job);
  for (std::int64_t layers = 0; layers <= job.model.layers; ++layers) {
    Plan other = found.best->plan;
    other.stage_layers = {layers, job.model.layers - layers};
    Estimate estimate;
    estimator.estimate(other, estimate);
    EXPECT_GE(estimate.time.step_seconds, found.best->time.step_seconds * (1 - 1e-9))
        << layers << " beats " << found.best->plan.stage_layers.front();
  }
}

TEST(MixedCards, RanksThatDoTheSameGoAtThePaceOfTheSlowest) {
  // Data parallelism over both kinds takes what it takes on the slow kind alone.
  const Job both = job_on(cards("A100-SXM4-80GB", 1, "H100-SXM5-80GB", 8), "llama-3.2-1b", 32);
  const Job slow = job_on(cards("A100-SXM4-80GB", 1, "A100-SXM4-80GB", 8), "llama-3.2-1b", 32);
  Plan plan;
  plan.sharded = 16;
  plan.sharding = planner::Sharding::kOptimizer;
  plan.micro_batches = 2;
  const double seconds = simulated_seconds(both, plan);
  EXPECT_NEAR(seconds, simulated_seconds(slow, plan), 0.01 * seconds);
  Estimate on_both;
  Estimate on_slow;
  Estimator(both).estimate(plan, on_both);
  Estimator(slow).estimate(plan, on_slow);
  EXPECT_NEAR(on_both.time.step_seconds, on_slow.time.step_seconds,
              0.01 * on_slow.time.step_seconds);
  // Of the same seconds, of more peak.
  EXPECT_LT(on_both.throughput.mfu, 0.6 * on_slow.throughput.mfu);
}

TEST(MixedCards, EachStageHasTheMemoryOfItsOwnCards) {
  const Job job = job_on(cards("H100-SXM5-80GB", 1, "H20-96GB", 8), "llama-3.1-8b", 64);
  Estimate estimate;
  Estimator estimator(job);
  // Nearly all layers on the cards of 96 GB, which the second stage has.
  estimator.estimate(two_stages(job, 1), estimate);
  EXPECT_EQ(estimate.memory.peak_stage, 1U);
  EXPECT_GT(estimate.memory.capacity_gib, 80);
  estimator.estimate(two_stages(job, 31), estimate);
  EXPECT_EQ(estimate.memory.peak_stage, 0U);
  EXPECT_LT(estimate.memory.capacity_gib, 80);
}

TEST(MixedCards, StagesAreOnTheGroupsOfTheirRanks) {
  const Job job = job_on(cards("A100-SXM4-80GB", 1, "H100-SXM5-80GB", 8), "llama-3.2-1b", 32);
  Plan plan;
  plan.pipeline = 4;
  plan.sharded = 4;
  EXPECT_EQ(planner::groups_of_stage(job.cluster, plan, 0), 1U);
  EXPECT_EQ(planner::groups_of_stage(job.cluster, plan, 1), 1U);
  EXPECT_EQ(planner::groups_of_stage(job.cluster, plan, 3), 2U);
  plan.order = {planner::Axis::kPipeline, planner::Axis::kTensor, planner::Axis::kContext,
                planner::Axis::kSharded, planner::Axis::kReplica};
  EXPECT_EQ(planner::groups_of_stage(job.cluster, plan, 2), 3U);
  // Alike nodes have no groups.
  EXPECT_EQ(planner::groups_of_stage(topologies::load_cluster("dgx-h100x2"), plan, 0), 0U);
}

}  // namespace
}  // namespace trireme::sim
