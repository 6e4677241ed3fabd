// Every instant of a compute stream goes to what it waited for; small steps worked by hand.
#include "sim/blame.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/unit/sim/step_builder.h"

namespace trireme::sim {
namespace {

std::vector<RankBlame> blame(const StepBuilder& step, const SimulateOptions& options = {}) {
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(1), options);
  EXPECT_EQ(result.deadlock, "");
  std::vector<RankBlame> all = blame_of(step.program, step.times, result.trace);
  for (const RankBlame& rank : all) {
    SimDuration sum;
    for (const SimDuration spent : rank.spent) {
      sum += spent;
    }
    EXPECT_EQ(sum.value, result.step.value);
  }
  return all;
}

std::int64_t of(const RankBlame& rank, Blame what) {
  return rank.of(what).value / us;
}

void set_phase(StepBuilder& step, OpId op, Phase phase) {
  step.program.roles[0].ops[index_of(op)].origin.phase = phase;
}

TEST(Blame, AGatherThatComputeWaitsForIsDataParallelTimeFromTheLastKernelOn) {
  StepBuilder step(2, 1);
  const GroupId data = step.group("data", 2, 1);
  step.add(0, Compute{}, 0, 4 * us);
  const OpId gather = step.add(0, AllGather{data}, 1, 10 * us);
  set_phase(step, gather, Phase::kParameterGather);
  step.add(0, Compute{}, 0, 3 * us, {gather});
  const RankBlame rank = blame(step).front();
  EXPECT_EQ(of(rank, Blame::kCompute), 7);
  EXPECT_EQ(of(rank, Blame::kData), 6);  // 10 less the 4 behind the first kernel
}

TEST(Blame, TheChainBehindAWaitIsFollowed) {
  // The second kernel waits for a tensor collective that itself waits for a gather.
  StepBuilder step(2, 1);
  const GroupId tensor = step.group("tensor", 2, 1);
  const OpId gather = step.add(0, AllGather{tensor}, 1, 5 * us);
  set_phase(step, gather, Phase::kParameterGather);
  const OpId reduce = step.add(0, AllReduce{tensor}, 2, 2 * us, {gather});
  step.add(0, Compute{}, 0, us, {reduce});
  const RankBlame rank = blame(step).front();
  EXPECT_EQ(of(rank, Blame::kData), 5);
  EXPECT_EQ(of(rank, Blame::kTensor), 2);
  EXPECT_EQ(of(rank, Blame::kCompute), 1);
}

TEST(Blame, AMessageIsExchangeWhileUnderWayAndPeerBefore) {
  StepBuilder step(2, 2);
  const OpId forward = step.add(0, Compute{}, 0, 10 * us);
  step.add(0, Send{.peer = 1, .channel = 0, .tag = 0}, 1, 2 * us, {forward}, 1000);
  const OpId receive = step.add(1, Recv{.peer = -1, .channel = 0, .tag = 0}, 1, 2 * us, {}, 1000);
  step.add(1, Compute{}, 0, 7 * us, {receive});
  const std::vector<RankBlame> ranks = blame(step);
  EXPECT_EQ(of(ranks[1], Blame::kPeer), 10);
  EXPECT_EQ(of(ranks[1], Blame::kExchange), 2);
  EXPECT_EQ(of(ranks[1], Blame::kCompute), 7);
  // The first rank ends with its message; then it waits for the other.
  EXPECT_EQ(of(ranks[0], Blame::kCompute), 10);
  EXPECT_EQ(of(ranks[0], Blame::kExchange), 2);
  EXPECT_EQ(of(ranks[0], Blame::kPeer), 7);
}

TEST(Blame, AStreamThatWaitsForLaunchesIsTheHosts) {
  StepBuilder step(1, 1);
  for (int i = 0; i < 3; ++i) {
    step.add(0, Compute{}, 0, us, {}, 0, 3 * us);
  }
  const RankBlame rank = blame(step).front();
  EXPECT_EQ(of(rank, Blame::kCompute), 3);
  EXPECT_EQ(of(rank, Blame::kHost), 7);  // 3 before the first, 2 before each other
}

TEST(Blame, ASlowRankAndKernelsBesideACollectiveAreInterference) {
  StepBuilder step(2, 1);
  const GroupId data = step.group("data", 2, 1);
  step.add(0, Compute{}, 0, 10 * us);
  step.add(0, AllReduce{data}, 1, 10 * us);
  SimulateOptions options;
  options.compute_slowdown = 0.5;  // the collective ends at 10, when 10 / 1.5 of the kernel is done
  const RankBlame rank = blame(step, options).front();
  EXPECT_EQ(of(rank, Blame::kCompute), 10);
  EXPECT_EQ(of(rank, Blame::kInterference), 3);  // 10 - 6.67
}

TEST(Blame, TheOptimizersPassIsItsOwn) {
  StepBuilder step(1, 1);
  step.add(0, Compute{}, 0, 2 * us);
  set_phase(step, step.add(0, Compute{}, 0, us), Phase::kOptimizer);
  const RankBlame rank = blame(step).front();
  EXPECT_EQ(of(rank, Blame::kCompute), 2);
  EXPECT_EQ(of(rank, Blame::kOptimizer), 1);
}

}  // namespace
}  // namespace trireme::sim
