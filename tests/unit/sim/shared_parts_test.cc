// Transfers that meet inside a node or above it, against counts by hand: the links of the simulator
// are the edges of the cluster's graph.
#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/unit/sim/step_builder.h"
#include "topologies/nccl_graph.h"
#include "topologies/node_layout.h"
#include "topologies/node_parts.h"

namespace trireme::sim {
namespace {

constexpr std::int64_t kMB = 1'000'000;

// Four GPUs on PCIe that carries 32 GB/s, two below a switch, both switches on one socket; one NIC
// of 25 GB/s below the first. A link that carries so much, by its raw rate.
BytesPerSecond raw_pcie(double carried) {
  return BytesPerSecond(carried * (1e9 / topologies::pcie_carries(BytesPerSecond(1e9)).value));
}

topologies::Cluster pcie_nodes(std::int64_t nodes) {
  topologies::Cluster cluster;
  cluster.name = "test";
  cluster.node.gpus = 4;
  cluster.node.nvlink_domain = 1;
  cluster.node.fabric = topologies::Node::Fabric::kPcie;
  cluster.node.pcie_per_gpu = raw_pcie(32e9);
  cluster.node.gpus_per_pcie_switch = 2;
  cluster.node.sockets = 1;
  cluster.node.socket_link = BytesPerSecond(10e9);
  cluster.node.nics = 1;
  cluster.node.nic = BytesPerSecond(25e9);
  cluster.network.nodes_per_unit = 1024;
  cluster.nodes = nodes;
  cluster.gpus = nodes * 4;
  return cluster;
}

// Messages of 32 MB, each with what it takes alone; every rank has a role of its own.
struct Message {
  int from, to;
  std::int64_t alone;  // microseconds
};
std::vector<double> ends_of(const topologies::Cluster& cluster,
                            const std::vector<Message>& messages) {
  StepBuilder step(cluster.gpus, cluster.gpus);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const auto channel = static_cast<std::uint16_t>(i);
    const int stream = 1 + static_cast<int>(i % 4);
    step.add(static_cast<std::size_t>(message.from),
             Send{.peer = message.to - message.from, .channel = channel, .tag = 0}, stream,
             message.alone * us, {}, 32 * kMB);
    step.add(static_cast<std::size_t>(message.to),
             Recv{.peer = message.from - message.to, .channel = channel, .tag = 0}, stream,
             message.alone * us, {}, 32 * kMB);
  }
  const Simulation result = simulate(step.program, step.times, cluster);
  EXPECT_EQ(result.deadlock, "");
  std::vector<double> ends;
  for (const Message& message : messages) {
    for (const OpTiming& op : result.trace.timings) {
      if (static_cast<int>(index_of(op.rank)) == message.from) {
        ends.push_back(static_cast<double>(op.end.picoseconds) / us);
        break;
      }
    }
  }
  return ends;
}

void expect_ends(const std::vector<double>& ends, const std::vector<double>& hand) {
  ASSERT_EQ(ends.size(), hand.size());
  for (std::size_t i = 0; i < hand.size(); ++i) {
    EXPECT_NEAR(ends[i], hand[i], 1e-3 * hand[i]) << "message " << i;
  }
}

TEST(SharedParts, TheLinkOutOfASwitchIsOfItsGpusAndOfTheAdapterElsewhere) {
  // GPU 2 sends to the other node, by way of the NIC below the first switch, alone at its 25 GB/s;
  // GPU 3 sends to GPU 1. Both leave the second switch and enter the first: 16 GB/s each.
  expect_ends(ends_of(pcie_nodes(2), {{2, 4, 1280}}), {1280});
  expect_ends(ends_of(pcie_nodes(2), {{3, 1, 1000}}), {1000});
  expect_ends(ends_of(pcie_nodes(2), {{2, 4, 1280}, {3, 1, 1000}}), {2000, 2000});
}

TEST(SharedParts, BelowOneSwitchTheNicAndThePeerDoNotMeet) {
  // GPU 0 sends through the NIC of its own switch, GPU 1 to the second switch.
  expect_ends(ends_of(pcie_nodes(2), {{0, 4, 1280}, {1, 2, 1000}}), {1280, 1000});
}

TEST(SharedParts, TwoGpusAndANicBelowOneSwitch) {
  // Both GPUs send through the NIC: 12.5 GB/s each. What comes in meets none of it.
  expect_ends(ends_of(pcie_nodes(2), {{0, 4, 1280}, {1, 5, 1280}, {6, 2, 1280}}),
              {2560, 2560, 1280});
}

TEST(SharedParts, WhatLeavesAndWhatPeersSendShareAGpusLink) {
  // GPU 0 receives from the other node (25 of its 32 GB/s alone) and from GPU 1: 16 GB/s each.
  expect_ends(ends_of(pcie_nodes(2), {{4, 0, 1280}, {1, 0, 1000}}), {2000, 2000});
}

TEST(SharedParts, SocketsShareTheirLink) {
  topologies::Cluster cluster = pcie_nodes(1);
  cluster.node.sockets = 2;
  // 10 GB/s between the sockets, each way for itself.
  expect_ends(ends_of(cluster, {{0, 2, 3200}, {1, 3, 3200}}), {6400, 6400});
  expect_ends(ends_of(cluster, {{0, 2, 3200}, {3, 1, 3200}}), {3200, 3200});
}

TEST(SharedParts, AnAdapterOnTheOtherSocketIsReachedOverTheirLink) {
  // A layout as importers make it: the second GPU's only adapter is on the first socket.
  topologies::Cluster cluster = pcie_nodes(2);
  const auto place = [](int socket, int leaf) {
    return topologies::Place{socket, leaf, leaf, leaf, {}};
  };
  cluster.node.layout = topologies::make_layout(
      {place(0, 0), place(0, 0), place(1, 1), place(1, 1)}, {place(0, 0)}, {});
  // GPU 2 to the adapter and GPU 3 to GPU 1: half of 10 GB/s each.
  expect_ends(ends_of(cluster, {{2, 4, 3200}, {3, 1, 3200}}), {6400, 6400});
}

TEST(SharedParts, AnAdapterOnANarrowLinkCarriesWhatTheNcclModelSays) {
  // One of 25 GB/s on a link of 16 GB/s raw: 13.6 GB/s, alone and shared by two messages.
  topologies::Cluster cluster = pcie_nodes(2);
  const topologies::Place one{0, 0, 0, 0, {}};
  const topologies::Place two{0, 1, 1, 1, {}};
  topologies::Place narrow = one;
  narrow.rate = BytesPerSecond(16e9);
  cluster.node.layout = topologies::make_layout({one, one, two, two}, {narrow}, {});
  EXPECT_DOUBLE_EQ(topologies::adapter_rate(cluster.node, 0).value, 13.6e9);
  const topologies::NcclGraph model = topologies::nccl_graph(
      cluster, {.ranks = 2, .ranks_per_node = 1, .stride = 4, .concurrent_per_node = 1});
  EXPECT_DOUBLE_EQ(model.net_total, 13.6);
  const double alone = 32e6 / 13.6e9 * 1e6;
  const auto whole = static_cast<std::int64_t>(alone);
  expect_ends(ends_of(cluster, {{0, 4, whole}, {1, 5, whole}}), {2 * alone, 2 * alone});
}

TEST(SharedParts, AGpuOnANarrowLinkIsSharedAtItsOwnRate) {
  // GPU 0 on a link that carries 8 GB/s of the others' 32: two messages of 32 MB into it.
  topologies::Cluster cluster = pcie_nodes(1);
  const topologies::Place one{0, 0, 0, 0, {}};
  const topologies::Place two{0, 1, 1, 1, {}};
  topologies::Place narrow = one;
  narrow.rate = raw_pcie(8e9);
  cluster.node.layout = topologies::make_layout({narrow, one, two, two}, {one}, {});
  expect_ends(ends_of(cluster, {{1, 0, 4000}, {2, 0, 4000}}), {8000, 8000});
}

// Every rank sends `bytes` in a ring over its group.
void add_moving_gather(StepBuilder& step, GroupId group, int stream, std::int64_t alone,
                       std::int64_t bytes) {
  const std::int64_t members = group_size(step.program.groups[index_of(group)]);
  const OpId id = step.add(0, AllGather{group}, stream, alone * us);
  Program& role = step.program.roles[0];
  const std::int64_t shard = bytes / (members - 1) / step.program.widths.compute;
  role.ops[index_of(id)].operands = {static_cast<std::uint32_t>(role.operands.size()), 2};
  role.operands.push_back({.buffer = BufferId{0}, .count = shard});
  role.operands.push_back({.buffer = BufferId{0}, .count = shard * members});
}
double end_of(const Simulation& simulation, std::size_t op) {
  return static_cast<double>(simulation.trace.timings[op].end.picoseconds) / us;
}

TEST(SharedParts, RingsOverSwitchesShareTheLinksOutOfThem) {
  // Groups {0, 2} and {1, 3}: each switch sends for both of its GPUs, 2 x 16 MB over 32 GB/s.
  // Two such gathers at once share those links though each GPU's own could carry both.
  StepBuilder step(4, 1);
  const GroupId across = step.group("data", 2, 2);
  add_moving_gather(step, across, 1, 1000, 16 * kMB);
  EXPECT_EQ(simulate(step.program, step.times, pcie_nodes(1)).step.value, 1000 * us);
  add_moving_gather(step, across, 2, 1000, 16 * kMB);
  EXPECT_NEAR(end_of(simulate(step.program, step.times, pcie_nodes(1)), 1), 2000, 2);
  // Pairs below one switch use no link out of it.
  StepBuilder pairs(4, 1);
  add_moving_gather(pairs, pairs.group("data", 2, 2), 1, 1000, 16 * kMB);
  add_moving_gather(pairs, pairs.group("tensor", 2, 1), 2, 1000, 16 * kMB);
  EXPECT_NEAR(end_of(simulate(pairs.program, pairs.times, pcie_nodes(1)), 1), 1000, 1);
  SimulateOptions unfolded;
  unfolded.unfold = true;
  EXPECT_NEAR(
      static_cast<double>(simulate(step.program, step.times, pcie_nodes(1), unfolded).step.value),
      2000.0 * us, 2.0 * us);
}

TEST(SharedParts, ASpineFourToOneIsSharedByWhatCrossesIt) {
  // Units of two nodes of 8 x 50 GB/s, 200 GB/s out of each. From unit to unit 16 ranks send 50 MB:
  // 4 ms alone, two at once 8 ms. A gather inside the unit keeps the 37.5 GB/s of each NIC that the
  // first leaves: 50 MB in 1333 us.
  topologies::Cluster cluster = eight_gpu_nodes(4);
  cluster.network.nodes_per_unit = 2;
  cluster.network.oversubscription = 4;
  StepBuilder step(32, 1);
  const GroupId across = step.group("data", 2, 16);
  const GroupId inside = step.group("other", 2, 8);
  add_moving_gather(step, across, 1, 4000, 50 * kMB);
  add_moving_gather(step, inside, 2, 1000, 50 * kMB);
  const Simulation both = simulate(step.program, step.times, cluster);
  EXPECT_NEAR(end_of(both, 0), 4000, 4);
  EXPECT_NEAR(end_of(both, 1), 4000.0 / 3, 1.3);
  StepBuilder two(32, 1);
  add_moving_gather(two, two.group("data", 2, 16), 1, 4000, 50 * kMB);
  add_moving_gather(two, two.group("other", 2, 16), 2, 4000, 50 * kMB);
  EXPECT_NEAR(end_of(simulate(two.program, two.times, cluster), 1), 8000, 8);
}

}  // namespace
}  // namespace trireme::sim
