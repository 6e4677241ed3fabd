// `plan --refine` and the simulator's faults on whole training steps: what a slow rank, stage, link
// or rail costs is what the critical path says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/presets.h"
#include "planner/lower/lower.h"
#include "planner/walk/step_times.h"
#include "planner/walk/walk.h"
#include "tests/unit/tools/command.h"
#include "tools/simulation.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

planner::Job job_of(const std::string& model, std::int64_t gpus, std::int64_t batch) {
  planner::Job job;
  job.model = models::load_model(model);
  job.sequence = 4096;
  job.framework = planner::find_framework("trireme");
  job.profile = topologies::shipped_profile();
  job.profile.frameworks["trireme"] = {{"overlap_slowdown", 0.0}};
  job.cluster = topologies::load_cluster(fmt::format("dgx-h100x{}", gpus / 8));
  job.global_batch = batch;
  return job;
}

sim::Faults slow_stage(std::uint32_t stage) {
  sim::Faults faults;
  faults.stragglers.push_back({.factor = 1.2, .rank = {}, .stage = StageIndex{stage}});
  return faults;
}

sim::Faults slow_link(sim::SlowLink::Kind kind, double factor,
                      std::optional<std::int64_t> node = std::nullopt,
                      std::optional<int> nic = std::nullopt) {
  sim::Faults faults;
  faults.slow_links.push_back({kind, factor, node, nic});
  return faults;
}

double step_of(const planner::Job& job, const planner::Plan& plan, const sim::Faults& faults = {},
               bool share_links = true) {
  sim::SimulateOptions options;
  options.record_trace = false;
  options.share_links = share_links;
  options.faults = faults;
  return simulate_plan(job, plan, options).step_seconds;
}

planner::Plan pipeline_of_eight(std::int64_t micro_batches) {
  planner::Plan plan;
  plan.pipeline = 8;
  plan.micro_batches = micro_batches;
  return plan;
}

TEST(Faults, AStragglingStageCostsWhatTheWalkWithItsSlowerKernelsSays) {
  const planner::Job job = job_of("llama-3.1-8b", 8, 16);
  const planner::Plan plan = pipeline_of_eight(16);
  const StepProgram program = planner::lower(job, plan);
  for (const std::uint32_t stage : {0U, 3U, 7U}) {
    StepTimes times = planner::time_ops(job, program);
    for (std::size_t i = 0; i < program.roles[stage].ops.size(); ++i) {
      const OpKind& kind = program.roles[stage].ops[i].kind;
      if (std::holds_alternative<Compute>(kind) || std::holds_alternative<Copy>(kind)) {
        SimDuration& duration = times.roles[stage][i].duration;
        duration = to_sim_duration(to_seconds(duration) * 1.2);
      }
    }
    const double walked = to_seconds(planner::walk(program, times).step_times.front()).value;
    const sim::Faults slow = slow_stage(stage);
    EXPECT_NEAR(step_of(job, plan, slow, false) / walked, 1, 1e-7) << stage;
  }
}

TEST(Faults, AMiddleStageAFifthSlowerSlowsEightStagesByItsCriticalPath) {
  // Stage 3 of even stages of one unit, forward 1/3: it waits for the three before it (3), does 32
  // micro-batches (32 x 1.2), and between its first forward and the first backward that comes back
  // it has four more forwards to hide the four stages after it (4 - 4 x 0.4), at the end four
  // backwards (4 - 4 x 0.8): 3 + 38.4 + 2.4 + 0.8 over 32 + 7.
  planner::Job job = job_of("llama-3.1-70b", 8, 32);
  job.model.vocab = 1024;
  const planner::Plan plan = pipeline_of_eight(32);
  const double ratio = step_of(job, plan, slow_stage(3), false) / step_of(job, plan, {}, false);
  EXPECT_NEAR(ratio, (3 + 38.4 + 2.4 + 0.8) / 39, 0.005);
}

TEST(Faults, ADataParallelRankAFifthSlowerHoldsUpAllOthersByItsOwnKernels) {
  const planner::Job job = job_of("llama-3.2-1b", 16, 64);
  planner::Plan plan;
  plan.replicas = 16;
  plan.micro_batches = 4;
  sim::SimulateOptions options;
  options.record_trace = false;
  const SimulatedStep base = simulate_plan(job, plan, options);
  options.faults.stragglers = {{.factor = 1.2, .rank = Rank{5}, .stage = {}}};
  const SimulatedStep slow = simulate_plan(job, plan, options);
  // A fifth of its kernels; reductions behind the slower last backward hide a little more.
  const double busy = to_seconds(base.simulation.actors.front().busy).value;
  const double more = slow.step_seconds - base.step_seconds;
  EXPECT_LE(more, 0.2 * busy * 1.001);
  EXPECT_GE(more, 0.2 * busy * 0.9);
  // The others wait for it: they are split off, and idle.
  EXPECT_GE(slow.simulation.actors.size(), 2U);
}

TEST(Faults, HalfTheBandwidthOfOneNodesNicsIsHalfOfTheWholeRings) {
  // Gradients of two nodes in one all-reduce a layer, nothing to hide behind: kernels off.
  planner::Job job = job_of("llama-3.2-1b", 16, 16);
  job.framework.overlap_grad_reduce = false;
  planner::Plan plan;
  plan.replicas = 16;
  const double base = step_of(job, plan);
  using Kind = sim::SlowLink::Kind;
  const double one_node = step_of(job, plan, slow_link(Kind::kNic, 0.5, 1));
  const double every_node = step_of(job, plan, slow_link(Kind::kNic, 0.5));
  EXPECT_GT(one_node, 1.05 * base);
  // A ring is as fast as its slowest link: one slow node costs what slow nodes everywhere cost.
  EXPECT_NEAR(one_node / every_node, 1, 1e-6);
  // A rail of eight carries an eighth of the traffic; the ring waits for it all the same.
  const double degraded = step_of(job, plan, slow_link(Kind::kNic, 0.5, std::nullopt, 2));
  EXPECT_GT(degraded, 1.02 * base);
  EXPECT_LE(degraded, every_node * (1 + 1e-9));
}

TEST(Faults, ASlowNvlinkCostsTensorParallelismAndNothingElse) {
  const planner::Job job = job_of("llama-3.1-8b", 8, 8);
  const sim::Faults slow = slow_link(sim::SlowLink::Kind::kFastFabric, 0.25);
  planner::Plan tensor;
  tensor.tensor = 8;
  tensor.micro_batches = 8;
  EXPECT_GT(step_of(job, tensor, slow), 1.1 * step_of(job, tensor));
  planner::Job alone = job_of("llama-3.2-1b", 8, 1);
  alone.cluster = topologies::narrowed(alone.cluster, 1);
  EXPECT_EQ(step_of(alone, {}, slow), step_of(alone, {}));
}

const std::vector<std::string> kPlan = {
    "plan", "--model",        "llama-3.1-8b", "--cluster", "dgx-h100x2", "--seq",
    "4096", "--global-batch", "64",           "--top",     "6",          "--json"};

TEST(Refine, TheBestKAreSimulatedAndInOrder) {
  std::vector<std::string> refined = kPlan;
  refined.insert(refined.end(), {"--refine", "4"});
  const json closed = json_of(kPlan);
  const json plan = json_of(refined);
  std::vector<json> first = {plan["best"]};
  for (const json& one : plan["alternatives"]) {
    first.push_back(one);
  }
  ASSERT_GE(first.size(), 5U);
  double before = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const double step = first[i]["time"]["step_seconds"];
    EXPECT_GE(step, before);
    before = step;
    double sum = 0;
    for (const auto& [name, seconds] : first[i]["time"]["breakdown_seconds"].items()) {
      sum += seconds.get<double>();
    }
    EXPECT_NEAR(sum / step, 1, 1e-9);
  }
  // The same layouts as without, and the rest as they were.
  EXPECT_EQ(plan["space"], closed["space"]);
  EXPECT_EQ(plan["alternatives"][4]["layout"], closed["alternatives"][4]["layout"]);
  EXPECT_EQ(plan["alternatives"][4]["time"], closed["alternatives"][4]["time"]);
}

TEST(Refine, TheRefinedStepIsWhatSimulatePrints) {
  std::vector<std::string> refined = kPlan;
  refined.insert(refined.end(), {"--refine", "3", "--tp", "2", "--micro-batch", "1", "--pp", "2",
                                 "--sharding", "none"});
  const json plan = json_of(refined);
  const json& layout = plan["best"]["layout"];
  std::string split;
  for (const json& layers : layout["stage_layers"]) {
    split += (split.empty() ? "" : ",") + std::to_string(layers.get<int>());
  }
  std::vector<std::string> simulate = {
      "simulate",
      "--model",
      "llama-3.1-8b",
      "--cluster",
      "dgx-h100x2",
      "--seq",
      "4096",
      "--global-batch",
      "64",
      "--tp",
      "2",
      "--pp",
      "2",
      "--micro-batch",
      "1",
      "--vpp",
      std::to_string(layout["vpp"].get<int>()),
      "--schedule",
      layout["schedule"].get<std::string>(),
      "--recompute",
      layout["recompute"].get<std::string>(),
      layout["sequence_parallel"].get<bool>() ? "--sequence-parallel" : "--no-sequence-parallel",
      "--json"};
  if (!split.empty()) {
    simulate.insert(simulate.end(), {"--stage-layers", split});
  }
  const json step = json_of(simulate);
  EXPECT_NEAR(plan["best"]["time"]["step_seconds"].get<double>() /
                  step["time"]["step_seconds"].get<double>(),
              1, 0.02);
}

TEST(Refine, AnotherGoalKeepsItsOrder) {
  std::vector<std::string> memory = kPlan;
  memory.insert(memory.end(), {"--objective", "memory"});
  std::vector<std::string> refined = memory;
  refined.insert(refined.end(), {"--refine", "4"});
  EXPECT_EQ(json_of(memory)["best"]["layout"], json_of(refined)["best"]["layout"]);
}

}  // namespace
}  // namespace trireme::tools
