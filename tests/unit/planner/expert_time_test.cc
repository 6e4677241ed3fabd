// What routed experts add to a layer: tokens that travel, what covers them, the host. The closed
// form and the times of the program's ops say the same.
#include <gtest/gtest.h>

#include <cmath>

#include "models/presets.h"
#include "planner/cost/expert_time.h"
#include "planner/cost/time.h"
#include "planner/lower/lower.h"
#include "planner/plan/shape.h"
#include "planner/walk/step_times.h"
#include "sim/simulate.h"
#include "topologies/profile.h"

namespace trireme::planner {
namespace {

// Eight micro-batches of a model with 128 experts, eight a token, on two nodes.
Job expert_job(const char* cluster) {
  Job job;
  job.model = models::load_model("qwen3-30b-a3b");
  job.cluster = topologies::load_cluster(cluster);
  job.framework = find_framework("megatron");
  job.profile = topologies::shipped_profile();
  job.sequence = 4096;
  job.global_batch = 8 * job.cluster.gpus;
  return job;
}

Plan expert_plan(const Job& job, std::int64_t expert) {
  Plan plan;
  plan.sharded = job.cluster.gpus;
  plan.sharding = Sharding::kOptimizer;
  plan.expert = expert;
  plan.expert_tensor = 1;
  plan.micro_batches = 8;
  return plan;
}

TimeEstimate estimate_of(const Job& job, const Plan& plan) {
  TimeEstimate estimate;
  TimeModel(job).estimate(plan, estimate);
  return estimate;
}

double simulated(const Job& job, const Plan& plan) {
  const StepProgram program = lower(job, plan);
  sim::SimulateOptions options;
  options.share_links = false;
  options.record_trace = false;
  return to_seconds(sim::simulate(program, time_ops(job, program), job.cluster, options).step)
      .value;
}

// Wide expert parallelism was priced by NCCL's all-to-all, eight copies a token over the network.
// Eight of 64 ranks on eight nodes: 8 (1 - (7/8)^8) = 5.25 nodes are visited.
TEST(ExpertTime, ATokenGoesOnceToEachNodeOfItsExperts) {
  Job job = expert_job("dgx-h100x8");
  const Plan plan = expert_plan(job, 64);
  EXPECT_EQ(exchanged_copies(job, plan, true), 8);
  job.framework.dispatch_once = true;
  EXPECT_NEAR(exchanged_copies(job, plan, true), 8 * (1 - std::pow(7.0 / 8, 8)), 1e-12);
  job.framework.dispatch_bytes = 1;
  EXPECT_NEAR(exchanged_copies(job, plan, true), 4 * (1 - std::pow(7.0 / 8, 8)), 1e-12);
  EXPECT_NEAR(exchanged_copies(job, plan, false), 8 * (1 - std::pow(7.0 / 8, 8)), 1e-12);
}

// Inside a node NVLink carries a token once to each rank.
TEST(ExpertTime, ATokenGoesOnceToEachRankOfANode) {
  Job job = expert_job("dgx-h100x1");
  job.framework.dispatch_once = true;
  EXPECT_NEAR(exchanged_copies(job, expert_plan(job, 8), true), 8 * (1 - std::pow(7.0 / 8, 8)),
              1e-12);
  EXPECT_NEAR(exchanged_copies(job, expert_plan(job, 2), true), 2 * (1 - std::pow(0.5, 8)), 1e-12);
}

// DeepSeek-V3's published step hides nearly all of its exchanges; it was predicted with all
// exposed.
TEST(ExpertTime, ExchangesHideBesideAnotherMicroBatch) {
  Job job = expert_job("dgx-h100x2");
  Plan plan = expert_plan(job, 16);
  const double exposed = estimate_of(job, plan).exposed.expert_parallel;
  job.framework.expert_overlap = true;
  EXPECT_LT(estimate_of(job, plan).exposed.expert_parallel, 0.6 * exposed);
  EXPECT_TRUE(overlaps_experts(job, plan));
  plan.recompute = Recompute::kFull;
  EXPECT_FALSE(overlaps_experts(job, plan));
  plan = expert_plan(job, 16);
  plan.micro_batches = 1;
  EXPECT_FALSE(overlaps_experts(job, plan));
}

// The host of experts shows where kernels are short, and not where a CUDA graph launches them.
TEST(ExpertTime, TheHostOfExpertsShowsAtSmallMicroBatches) {
  Job job = expert_job("dgx-h100x1");
  const Plan plan = expert_plan(job, 8);
  const double eager = estimate_of(job, plan).step_seconds;
  job.framework.graphed_launches = 1;
  const double graphed = estimate_of(job, plan).step_seconds;
  EXPECT_GT(eager, 1.03 * graphed);
}

// One list of ops and one law for both readers: without and with each of the three.
TEST(ExpertTime, ClosedFormAndProgramAgree) {
  for (const int variant : {0, 1, 2, 3}) {
    Job job = expert_job("dgx-h100x2");
    job.framework.dispatch_once = variant != 1;
    job.framework.expert_overlap = variant >= 2;
    job.framework.graphed_launches = variant == 3 ? 1 : 0;
    const Plan plan = expert_plan(job, 16);
    const double program = simulated(job, plan);
    EXPECT_NEAR(estimate_of(job, plan).step_seconds / program, 1, 0.03) << variant;
  }
}

}  // namespace
}  // namespace trireme::planner
