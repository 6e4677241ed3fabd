// Extra prediction modules (DeepSeek-V3's multi-token prediction): their layer, projection, head
// and loss in parameters, time, memory and placement.
#include <gtest/gtest.h>

#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/launch/export.h"
#include "planner/launch/read_launch.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "planner/plan/stages.h"
#include "planner/search/splits.h"
#include "planner/walk/step_times.h"
#include "planner/walk/walk.h"
#include "topologies/profile.h"

namespace trireme::planner {
namespace {

Job deepseek(std::int64_t modules, const char* framework = "megatron") {
  Job job;
  job.model = models::load_model("deepseek-v3");
  job.model.multi_token_layers = modules;
  job.cluster = topologies::load_cluster("hgx-h200x32");
  job.framework = find_framework(framework);
  job.profile = topologies::shipped_profile();
  job.sequence = 4096;
  job.global_batch = 512;
  return job;
}

// 61 layers on 16 ranks of two chunks, the last with the head alone: Megatron's own string for the
// model, "Et*3|(tt|)*29m|L".
Plan published_layout(bool apart) {
  Plan plan;
  plan.pipeline = 16;
  plan.virtual_pipeline = 2;
  plan.schedule = Schedule::kInterleaved;
  plan.expert = 8;
  plan.expert_tensor = 1;
  plan.sharded = 16;
  plan.sharding = Sharding::kOptimizer;
  plan.recompute = Recompute::kFull;
  plan.micro_batches = 32;
  plan.stage_layers.assign(32, 2);
  plan.stage_layers.front() = 3;
  plan.stage_layers[30] = 0;
  plan.stage_layers[31] = 0;
  plan.prediction_apart = apart;
  if (!apart) {
    plan.stage_layers[30] = 1;
    plan.stage_layers[1] = 1;
  }
  return plan;
}

Estimate estimate_of(const Job& job, const Plan& plan) {
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  return estimate;
}

double walked_seconds(const Job& job, const StepProgram& program) {
  const Trace trace = walk(program, time_ops(job, program), {.keep_timings = false});
  return to_seconds(trace.step_times.front()).value;
}

TEST(Prediction, ModuleStandsWithTheHeadOrBeforeIt) {
  const Job job = deepseek(1);
  const std::vector<Chunk> with = chunks_of(job, published_layout(false));
  EXPECT_EQ(with.back().prediction, 1);
  EXPECT_EQ(with.back().own_layers(), 0);
  EXPECT_EQ(with.back().last, 62);
  const Plan apart = published_layout(true);
  ASSERT_FALSE(check_plan(job, apart)) << check_plan(job, apart)->detail;
  const std::vector<Chunk> before = chunks_of(job, apart);
  EXPECT_EQ(before[30].prediction, 1);
  EXPECT_EQ(before.back().last - before.back().first, 0);
  EXPECT_TRUE(check_plan(deepseek(0), apart).has_value());
}

// P22: the same step and the same memory with and without.
TEST(Prediction, ModuleTakesTimeAndMemory) {
  Plan plan = published_layout(false);
  const Estimate with = estimate_of(deepseek(1), plan);
  const Estimate without = estimate_of(deepseek(0), plan);
  EXPECT_GT(with.time.step_seconds, 1.005 * without.time.step_seconds);
  const auto last = with.memory.stages.size() - 1;
  // The layer's parameters of a rank (experts over 8), the copy of the token table and the second
  // logits: at least the table, 129,280 x 7,168 in 16 bits with its fp32 gradient.
  EXPECT_GT(with.memory.stages[last].items.total(), without.memory.stages[last].items.total() + 5);
  EXPECT_NEAR(with.memory.stages[3].items.total(), without.memory.stages[3].items.total(), 1e-9);
  EXPECT_GT(with.throughput.model_tflops_per_gpu * with.time.step_seconds,
            1.01 * without.throughput.model_tflops_per_gpu * without.time.step_seconds);
}

// P22 of other models: a module of experts, and a dense model that is given one.
TEST(Prediction, ModulesOfOtherModelsTakeTimeAndMemory) {
  for (const auto& [name, form] : {std::pair{"glm-4.5-air", "pp2.ep8.fsdp8.mb1.zero1"},
                                   {"llama-3.1-8b", "tp2.fsdp8.mb1.zero1"}}) {
    Job job = deepseek(1);
    job.model = models::load_model(name);
    job.model.multi_token_layers = 1;
    job.cluster = topologies::load_cluster("hgx-h200x2");
    Plan plan = parse_short_form(form);
    plan.micro_batches = job.global_batch / plan.data_parallel();
    const Estimate with = estimate_of(job, plan);
    job.model.multi_token_layers = 0;
    const Estimate without = estimate_of(job, plan);
    EXPECT_GT(with.time.step_seconds, 1.01 * without.time.step_seconds) << name;
    EXPECT_GT(with.memory.stages.back().items.total(),
              without.memory.stages.back().items.total() + 0.3)
        << name;
  }
}

// One list of ops: the program has the module too, and takes the closed form's time.
TEST(Prediction, ClosedFormAndProgramAgree) {
  for (const bool apart : {false, true}) {
    const Job job = deepseek(1);
    const Plan plan = published_layout(apart);
    const double closed = estimate_of(job, plan).time.step_seconds;
    const StepProgram program = lower(job, plan);
    const double walked = walked_seconds(job, program);
    // Chunks of unlike length, interleaved, are what the closed form follows least.
    EXPECT_NEAR(walked / closed, 1, apart ? 0.12 : 0.08);
    if (!apart) {
      const Job without = deepseek(0);
      EXPECT_GT(walked, walked_seconds(without, lower(without, plan)));
    }
  }
}

TEST(Prediction, FrameworksWithoutItLeaveItOut) {
  Job torch = deepseek(1, "fsdp2");
  EXPECT_TRUE(leave_out_prediction(torch));
  EXPECT_EQ(torch.model.multi_token_layers, 0);
  Job megatron = deepseek(1);
  EXPECT_FALSE(leave_out_prediction(megatron));
}

TEST(Prediction, PlacementIsInMegatronsLayoutString) {
  for (const bool apart : {false, true}) {
    LaunchPlan launch;
    launch.job = deepseek(1);
    launch.plan = published_layout(apart);
    set_hosts(launch);
    const std::string text = write_launch(LaunchFormat::kMegatron, launch).text;
    EXPECT_NE(text.find(apart ? "m|L" : "mL"), std::string::npos) << text;
    EXPECT_NE(text.find("--mtp-num-layers 1"), std::string::npos);
    const LaunchConfig read = read_launch(LaunchFormat::kMegatron, text, "run.sh");
    EXPECT_EQ(read.layout.prediction_apart, apart);
    EXPECT_EQ(read.layout.stage_layers, launch.plan.stage_layers);
    EXPECT_EQ(read.model->multi_token_layers, 1);
  }
}

// Where stages are balanced the module counts as the layer and the head that it is.
TEST(Prediction, BalanceCountsTheModule) {
  Plan plan;
  plan.pipeline = 16;
  plan.sharded = 16;
  plan.expert = 16;
  plan.micro_batches = 32;
  const Job with = deepseek(1);
  const Job without = deepseek(0);
  const std::vector<std::int64_t> a = StageSplits(with, {}).balanced(plan);
  const std::vector<std::int64_t> b = StageSplits(without, {}).balanced(plan);
  EXPECT_LT(a.back(), b.back());
}

}  // namespace
}  // namespace trireme::planner
