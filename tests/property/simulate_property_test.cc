// Simulation beside walk, folded beside unfolded, over seeded random plans, durations and clusters.
// TRIREME_CASES sets how many, and TRIREME_SEED the first seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "planner/lower/lower.h"
#include "planner/walk/walk.h"
#include "sim/simulate.h"
#include "tests/property/random_plans.h"
#include "tests/property/random_times.h"

namespace trireme {
namespace {

topologies::Cluster random_cluster(tests::Random& random, std::int64_t ranks) {
  topologies::Cluster cluster;
  cluster.node.gpus = 1 << random.below(4);
  cluster.node.nvlink_domain = random.chance(70) ? cluster.node.gpus : 1;
  cluster.node.nvlink_per_gpu = BytesPerSecond(5e9);
  cluster.node.pcie_per_gpu = BytesPerSecond(2e9);
  cluster.node.nics = std::max(1, cluster.node.gpus >> random.below(3));
  cluster.node.nic = BytesPerSecond(1e9);
  cluster.network.nodes_per_unit = 1 << random.below(4);
  cluster.network.oversubscription = static_cast<double>(1 + random.below(4));
  cluster.nodes = (ranks + cluster.node.gpus - 1) / cluster.node.gpus;
  cluster.gpus = ranks;
  return cluster;
}

void expect_same_timings(const Trace& walked, const Trace& simulated) {
  ASSERT_EQ(walked.timings.size(), simulated.timings.size());
  for (std::size_t i = 0; i < walked.timings.size(); ++i) {
    ASSERT_EQ(walked.timings[i].role, simulated.timings[i].role);
    ASSERT_EQ(walked.timings[i].op, simulated.timings[i].op);
    ASSERT_EQ(walked.timings[i].ready, simulated.timings[i].ready) << "op " << i;
    ASSERT_EQ(walked.timings[i].start, simulated.timings[i].start) << "op " << i;
    ASSERT_EQ(walked.timings[i].end, simulated.timings[i].end) << "op " << i;
  }
}

void check_case(const tests::RandomCase& drawn, std::uint64_t seed) {
  const StepProgram program = planner::lower(drawn.job, drawn.plan);
  tests::Random random(seed);
  const topologies::Cluster cluster = random_cluster(random, program.ranks);
  const StepTimes times = tests::random_times(program, random);
  const Trace walked = planner::walk(program, times);
  sim::SimulateOptions options;
  options.share_links = false;
  const sim::Simulation alone = sim::simulate(program, times, cluster, options);
  ASSERT_EQ(alone.deadlock, "");
  EXPECT_EQ(alone.actors.size(), program.roles.size());
  expect_same_timings(walked, alone.trace);
  EXPECT_EQ(walked.step_times, alone.trace.step_times);
  EXPECT_EQ(walked.peak_memory, alone.trace.peak_memory);
  EXPECT_EQ(sim::simulate(program, tests::scaled(times, 3), cluster, options).step, alone.step * 3);
  // Ranks of a role are alike, so one of them, or all of them, say the same.
  options.unfold = true;
  EXPECT_EQ(sim::simulate(program, times, cluster, options).step, alone.step);
  options.faults.stragglers = {{1.3, static_cast<Rank>(random.below(program.ranks)), {}}};
  const sim::Simulation unfolded = sim::simulate(program, times, cluster, options);
  options.unfold = false;
  const sim::Simulation folded = sim::simulate(program, times, cluster, options);
  EXPECT_EQ(folded.step, unfolded.step);
  EXPECT_LE(folded.actors.size(), unfolded.actors.size());
  EXPECT_GE(folded.step, alone.step);
  options.faults.stragglers.clear();
  options.share_links = true;
  const sim::Simulation shared = sim::simulate(program, times, cluster, options);
  EXPECT_EQ(shared.deadlock, "");
  EXPECT_GE(shared.step, alone.step);
  EXPECT_EQ(sim::simulate(program, times, cluster, options).trace, shared.trace);
  for (const sim::LinkReport& link : shared.links) {
    EXPECT_LE(link.utilisation, 1.0 + 1e-9) << link.name;
  }
}

TEST(Simulate, RelationsHoldForRandomPlans) {
  const std::uint64_t cases = tests::from_environment("TRIREME_CASES", 200);
  const std::uint64_t first = tests::from_environment("TRIREME_SEED", 1);
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    const tests::RandomCase drawn = tests::random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + drawn.describe());
    check_case(drawn, seed);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace trireme
