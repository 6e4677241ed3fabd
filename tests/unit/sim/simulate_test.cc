#include "sim/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "tests/unit/sim/step_builder.h"

namespace trireme::sim {
namespace {

const OpTiming& timing(const Simulation& simulation, std::size_t at) {
  return simulation.trace.timings[at];
}

TEST(Simulate, StreamsAreServersAndWaitsAreEvents) {
  StepBuilder step(1, 1);
  const OpId a = step.add(0, Compute{}, 0, 10 * us);
  const OpId b = step.add(0, Copy{}, 1, 4 * us);          // beside a
  const OpId c = step.add(0, Compute{}, 0, 5 * us, {b});  // after a on its stream
  step.add(0, Copy{}, 1, 3 * us, {c});                    // 10 + 5
  step.add(0, Compute{}, 2, 1 * us, {a});
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(1));
  EXPECT_EQ(result.deadlock, "");
  EXPECT_EQ(timing(result, 1).start.picoseconds, 0);
  EXPECT_EQ(timing(result, 2).start.picoseconds, 10 * us);
  EXPECT_EQ(timing(result, 3).start.picoseconds, 15 * us);
  EXPECT_EQ(timing(result, 4).end.picoseconds, 11 * us);
  EXPECT_EQ(result.step.value, 18 * us);
}

TEST(Simulate, TheHostIssuesOneOpAfterTheOther) {
  // Three kernels of 1 us, each 3 us to launch: the GPU waits for the host. 3 + 3 + 3 + 1.
  StepBuilder step(1, 1);
  for (int i = 0; i < 3; ++i) {
    step.add(0, Compute{}, 0, us, {}, 0, 3 * us);
  }
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(1));
  EXPECT_EQ(result.step.value, 10 * us);
  EXPECT_EQ(result.actors[0].busy.value, 3 * us);
}

TEST(Simulate, AMessageStartsWhenBothSidesAreReady) {
  StepBuilder step(2, 2);
  const OpId forward = step.add(0, Compute{}, 0, 10 * us);
  step.add(0, Send{.peer = 1, .channel = 0, .tag = 0}, 1, 2 * us, {forward}, 1000);
  const OpId receive = step.add(1, Recv{.peer = -1, .channel = 0, .tag = 0}, 1, 2 * us, {}, 1000);
  step.add(1, Compute{}, 0, 7 * us, {receive});
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(1));
  EXPECT_EQ(timing(result, 2).ready.picoseconds, 0);
  EXPECT_EQ(timing(result, 2).start.picoseconds, 10 * us);  // 10 us of waiting for the sender
  EXPECT_EQ(result.step.value, 19 * us);
  EXPECT_EQ(result.actors[1].busy.value, 7 * us);
  EXPECT_EQ(result.actors[1].exposed_communication.value, 2 * us);
}

// A collective over all 16 ranks of two nodes that sends `bytes` from each rank at most over its
// NIC.
void add_gather(StepBuilder& step, GroupId group, int stream, std::int64_t duration,
                std::int64_t output, const std::vector<OpId>& waits = {}) {
  const OpId id = step.add(0, AllGather{group}, stream, duration, waits, output);
  Program& role = step.program.roles[0];
  Op& op = role.ops[index_of(id)];
  op.operands = {static_cast<std::uint32_t>(role.operands.size()), 2};
  const std::int64_t count = output / step.program.widths.compute;
  const std::int64_t members = group_size(step.program.groups[index_of(group)]);
  role.operands.push_back({.buffer = BufferId{0}, .count = count / members});
  role.operands.push_back({.buffer = BufferId{0}, .count = count});
}

TEST(Simulate, ALoneCollectiveTakesExactlyItsDuration) {
  StepBuilder step(16, 1);
  const GroupId across = step.group("data", 2, 8);
  add_gather(step, across, 1, 123'456'789, 8'000'000);
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(2));
  EXPECT_EQ(result.step.value, 123'456'789);
}

TEST(Simulate, TwoCollectivesThatFillANicTakeTwiceAsLong) {
  // Groups of two ranks in two nodes gather 100 MB: each rank sends 50 MB, 1 ms over its NIC of 50
  // GB/s. Two of them at once on two streams share the NIC: 2 ms.
  StepBuilder step(16, 1);
  const GroupId across = step.group("data", 2, 8);
  add_gather(step, across, 1, 1000 * us, 100'000'000);
  add_gather(step, across, 2, 1000 * us, 100'000'000);
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(2));
  EXPECT_NEAR(static_cast<double>(result.step.value), 2000.0 * us, 1.0 * us);
  SimulateOptions alone;
  alone.share_links = false;
  EXPECT_EQ(simulate(step.program, step.times, eight_gpu_nodes(2), alone).step.value, 1000 * us);
  const auto busiest =
      std::max_element(result.links.begin(), result.links.end(),
                       [](const auto& a, const auto& b) { return a.utilisation < b.utilisation; });
  EXPECT_NE(busiest->name.find("NIC"), std::string::npos);
  EXPECT_NEAR(busiest->utilisation, 1.0, 1e-3);
}

TEST(Simulate, SitesShareTheirLink) {
  // A node a site; its eight ranks each gather with one of the other site: 8 x 50 MB over 12.5
  // GB/s, 32 ms and 10 ms of latency. Two at once share the link, on which latencies overlap: 64
  // ms.
  topologies::Cluster cluster = eight_gpu_nodes(2);
  cluster.network.levels = {
      {.name = "site", .nodes = 1, .out = BytesPerSecond(12.5e9), .latency = {}}};
  StepBuilder step(16, 1);
  const GroupId across = step.group("data", 2, 8);
  add_gather(step, across, 1, 42'000 * us, 100'000'000);
  EXPECT_EQ(simulate(step.program, step.times, cluster).step.value, 42'000 * us);
  add_gather(step, across, 2, 42'000 * us, 100'000'000);
  const Simulation result = simulate(step.program, step.times, cluster);
  EXPECT_NEAR(static_cast<double>(result.step.value), 64'000.0 * us, 64.0 * us);
  EXPECT_TRUE(std::ranges::any_of(result.links, [](const LinkReport& link) {
    return link.name == "uplinks of the site of node 0 out" && link.utilisation > 0.99;
  }));
}

TEST(Simulate, ATorusCarriesWhatPassesThrough) {
  // Along a ring of 8 nodes, two apart: each message takes two links, and two groups of four use
  // them all: 50 MB x 2 over 50 GB/s. Two at once take twice as long.
  topologies::Cluster cluster = eight_gpu_nodes(8);
  cluster.network.kind = topologies::Network::Kind::kTorus;
  cluster.network.torus = {8};
  StepBuilder step(64, 1);
  const GroupId apart = step.group("data", 4, 16);
  add_gather(step, apart, 1, 3'000 * us, 100'000'000);  // 75 MB sent, over two links: 3 ms
  EXPECT_EQ(simulate(step.program, step.times, cluster).step.value, 3'000 * us);
  add_gather(step, apart, 2, 3'000 * us, 100'000'000);
  EXPECT_NEAR(static_cast<double>(simulate(step.program, step.times, cluster).step.value),
              6'000.0 * us, 6.0 * us);
}

TEST(Simulate, WhoNeedsLittleOfALinkIsNotSlowed) {
  // The second collective is bound by its latency: 5 MB in 1 ms is a tenth of the NIC. Fair shares
  // are half and half, so it keeps its 5 GB/s for 1 ms; the first gets 45 GB/s meanwhile: 45 MB of
  // its 50, then 5 MB at 50 GB/s: 1.1 ms.
  StepBuilder step(16, 1);
  const GroupId across = step.group("data", 2, 8);
  add_gather(step, across, 1, 1000 * us, 100'000'000);
  add_gather(step, across, 2, 1000 * us, 10'000'000);
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(2));
  EXPECT_NEAR(static_cast<double>(timing(result, 1).end.picoseconds), 1000.0 * us, 0.1 * us);
  EXPECT_NEAR(static_cast<double>(timing(result, 0).end.picoseconds), 1100.0 * us, 0.1 * us);
}

TEST(Simulate, CollectivesOnDifferentLinksDoNotMeet) {
  StepBuilder step(16, 1);
  const GroupId inside = step.group("tensor", 8, 1);
  const GroupId across = step.group("data", 2, 8);
  add_gather(step, inside, 1, 1000 * us,
             457'142'857);  // 7/8 of it over NVLink: 400 MB, 1 ms at 400 GB/s
  add_gather(step, across, 2, 1000 * us, 100'000'000);
  EXPECT_EQ(simulate(step.program, step.times, eight_gpu_nodes(2)).step.value, 1000 * us);
}

TEST(Simulate, ComputeSlowsWhileACollectiveRuns) {
  // 10 us of compute, a collective of 4 us from the start, 25 % slow-down: in 4 us 3.2 us of the
  // work is done, 6.8 remain.
  StepBuilder step(8, 1);
  const GroupId inside = step.group("tensor", 8, 1);
  step.add(0, Compute{}, 0, 10 * us);
  step.add(0, AllReduce{inside}, 1, 4 * us, {}, 1000);
  SimulateOptions options;
  options.compute_slowdown = 0.25;
  EXPECT_EQ(simulate(step.program, step.times, eight_gpu_nodes(1), options).step.value, 10'800'000);
}

// A stream that waits for its host was slowed by collectives as a kernel is.
TEST(Simulate, WaitingForTheHostIsNotSlowed) {
  // 10 us, of which 4 us are waiting: a factor of 1 + 0.25 * 0.6; in 4 us 3.478 us are done.
  StepBuilder step(8, 1);
  const GroupId inside = step.group("tensor", 8, 1);
  const OpId kernel = step.add(0, Compute{}, 0, 10 * us);
  const OpId collective = step.add(0, AllReduce{inside}, 1, 4 * us, {}, 1000);
  step.times.roles[0][index_of(kernel)].apart = SimDuration(4 * us);
  SimulateOptions options;
  options.compute_slowdown = 0.25;
  EXPECT_NEAR(static_cast<double>(
                  simulate(step.program, step.times, eight_gpu_nodes(1), options).step.value),
              10'521'739, 10);
  // A collective that slows nothing.
  step.times.roles[0][index_of(collective)].apart = SimDuration(4 * us);
  EXPECT_EQ(simulate(step.program, step.times, eight_gpu_nodes(1), options).step.value, 10 * us);
}

TEST(Simulate, APlantedDeadlockNamesRoleOpAndWhatItWaitsFor) {
  // Both stages send before they receive, on one stream each: neither receive is ever issued to its
  // stream's front.
  StepBuilder step(2, 2);
  step.add(0, Send{.peer = 1, .channel = 0, .tag = 0}, 1, us, {}, 1000);
  step.add(0, Recv{.peer = 1, .channel = 0, .tag = 0}, 1, us, {}, 1000);
  step.add(1, Send{.peer = -1, .channel = 0, .tag = 0}, 1, us, {}, 1000);
  step.add(1, Recv{.peer = -1, .channel = 0, .tag = 0}, 1, us, {}, 1000);
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(1));
  EXPECT_EQ(result.deadlock,
            "rank 0 (stage 0), stream first: send op0 (op 0) waits for rank 1's recv op1\n"
            "rank 1 (stage 1), stream first: send op0 (op 0) waits for rank 0's recv op1\n");
}

TEST(Simulate, ADeadLinkIsADeadlockThatSaysSo) {
  StepBuilder step(16, 1);
  const GroupId across = step.group("data", 2, 8);
  add_gather(step, across, 1, 1000 * us, 100'000'000);
  SimulateOptions options;
  options.faults.slow_links = {{.kind = SlowLink::Kind::kNic, .factor = 0, .node = 1, .nic = {}}};
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(2), options);
  EXPECT_NE(result.deadlock.find("a link without bandwidth"), std::string::npos) << result.deadlock;
}

TEST(Simulate, ADegradedRailSlowsByWhatItLost) {
  // NIC-bound gather at half the bandwidth on rail 3: twice as long.
  StepBuilder step(16, 1);
  const GroupId across = step.group("data", 2, 8);
  const GroupId inside = step.group("tensor", 8, 1);
  add_gather(step, across, 1, 1000 * us, 100'000'000);
  step.add(0, AllReduce{inside}, 0, 10 * us, {OpId{0}}, 1000);
  SimulateOptions options;
  options.faults.slow_links = {{.kind = SlowLink::Kind::kNic, .factor = 0.5, .node = {}, .nic = 3}};
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(2), options);
  EXPECT_EQ(result.actors.size(), 2U);  // rail 3 and the seven others; both nodes are alike
  EXPECT_NEAR(static_cast<double>(result.step.value), 2010.0 * us, 1.0 * us);
}

// Two stages of 2 x 4 ranks (tensor 2, data 4): compute, tensor and data collectives, messages;
// several micro-batches.
StepBuilder little_training_step(int micro_batches) {
  StepBuilder step(16, 2);
  const GroupId tensor = step.group("tensor", 2, 1);
  const GroupId data = step.group("data", 4, 2);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    OpId last{};
    for (int i = 0; i < micro_batches; ++i) {
      std::vector<OpId> waits;
      if (stage == 1) {
        waits.push_back(
            step.add(stage, Recv{.peer = -8, .channel = 0, .tag = 0}, 2, 3 * us, {}, 1'000'000));
      }
      const OpId work = step.add(stage, Compute{}, 0, (20 + 3 * i) * us, waits);
      last = step.add(stage, AllReduce{tensor}, 0, 5 * us, {work}, 2'000'000);
      if (stage == 0) {
        step.add(stage, Send{.peer = 8, .channel = 0, .tag = 0}, 2, 3 * us, {last}, 1'000'000);
      }
      step.add(stage, AllReduce{data}, 3, 30 * us, {last}, 4'000'000);
    }
  }
  return step;
}

TEST(Simulate, FoldedEqualsUnfolded) {
  const StepBuilder step = little_training_step(4);
  for (const double factor : {1.0, 1.5}) {
    SimulateOptions options;
    if (factor > 1) {
      options.faults.stragglers = {{.factor = factor, .rank = Rank{5}, .stage = {}}};
    }
    const Simulation folded = simulate(step.program, step.times, eight_gpu_nodes(2), options);
    options.unfold = true;
    const Simulation unfolded = simulate(step.program, step.times, eight_gpu_nodes(2), options);
    EXPECT_EQ(unfolded.actors.size(), 16U);
    // Rank 5 of stage 0: tensor place 1, data place 2. Cells 2 x 2 in each of two stages.
    EXPECT_EQ(folded.actors.size(), factor > 1 ? 8U : 2U);
    EXPECT_EQ(folded.step, unfolded.step);
    std::int64_t ranks = 0;
    for (const ActorReport& actor : folded.actors) {
      ranks += actor.ranks;
      const auto same =
          std::find_if(unfolded.actors.begin(), unfolded.actors.end(),
                       [&](const ActorReport& other) { return other.rank == actor.rank; });
      ASSERT_NE(same, unfolded.actors.end());
      EXPECT_EQ(same->busy, actor.busy);
      EXPECT_EQ(same->communicating, actor.communicating);
    }
    EXPECT_EQ(ranks, 16);
  }
}

TEST(Simulate, AStragglerCostsWhatTheCriticalPathSays) {
  // One micro-batch: compute, tensor all-reduce and message of stage 0, then the same and the data
  // all-reduce of stage 1. A fifth more of 20 us is 4 us, on the critical path in either stage.
  const StepBuilder step = little_training_step(1);
  SimulateOptions options;
  options.share_links = false;
  const std::int64_t base =
      simulate(step.program, step.times, eight_gpu_nodes(2), options).step.value;
  EXPECT_EQ(base, (20 + 5 + 3 + 20 + 5 + 30) * us);
  options.faults.stragglers = {{.factor = 1.2, .rank = {}, .stage = StageIndex{1}}};
  EXPECT_EQ(simulate(step.program, step.times, eight_gpu_nodes(2), options).step.value,
            base + 4 * us);
  options.faults.stragglers = {
      {.factor = 1.2, .rank = Rank{3}, .stage = {}}};  // of stage 0: its 20 us of work
  EXPECT_EQ(simulate(step.program, step.times, eight_gpu_nodes(2), options).step.value,
            base + 4 * us);
}

TEST(Simulate, OneSeedGivesOneAnswer) {
  const StepBuilder step = little_training_step(6);
  SimulateOptions options;
  options.faults.jitter = 0.1;
  options.faults.seed = 7;
  const Simulation first = simulate(step.program, step.times, eight_gpu_nodes(2), options);
  const Simulation again = simulate(step.program, step.times, eight_gpu_nodes(2), options);
  EXPECT_EQ(first.trace, again.trace);
  EXPECT_EQ(first.events, again.events);
  options.faults.seed = 8;
  const Simulation other = simulate(step.program, step.times, eight_gpu_nodes(2), options);
  EXPECT_NE(first.trace, other.trace);
  options.faults.jitter = 0;
  EXPECT_GT(first.step, simulate(step.program, step.times, eight_gpu_nodes(2), options).step);
}

TEST(Simulate, FaultsThatNameNothingAreErrors) {
  const StepBuilder step = little_training_step(1);
  SimulateOptions options;
  options.faults.stragglers = {{.factor = 1.2, .rank = Rank{16}, .stage = {}}};
  EXPECT_THROW(simulate(step.program, step.times, eight_gpu_nodes(2), options), Error);
  options.faults.stragglers = {{.factor = 1.2, .rank = {}, .stage = StageIndex{2}}};
  EXPECT_THROW(simulate(step.program, step.times, eight_gpu_nodes(2), options), Error);
  options.faults.stragglers.clear();
  options.faults.slow_links = {{.kind = SlowLink::Kind::kNic, .factor = 0.5, .node = 2, .nic = {}}};
  EXPECT_THROW(simulate(step.program, step.times, eight_gpu_nodes(2), options), Error);
}

}  // namespace
}  // namespace trireme::sim
