#include "topologies/collective_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "topologies/nccl_graph.h"
#include "topologies/nccl_model.h"
#include "topologies/textbook_cost.h"

namespace trireme::topologies {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

GroupShape everyone(const Cluster& cluster) {
  return {.ranks = cluster.gpus,
          .ranks_per_node = std::min<std::int64_t>(cluster.gpus, cluster.node.gpus)};
}

Cluster machine(const std::string& preset, std::int64_t gpus, int nics = 0) {
  Cluster cluster = load_cluster(preset);
  if (nics > 0) {
    cluster.node.nics = nics;
  }
  cluster.nodes = (gpus + cluster.node.gpus - 1) / cluster.node.gpus;
  cluster.gpus = gpus;
  return cluster;
}

CollectiveTime time_of(const Cluster& cluster, Collective collective, std::int64_t bytes,
                       CostFamily family = CostFamily::kNccl) {
  return collective_time(cluster, shipped_profile(), collective, everyone(cluster), Bytes(bytes),
                         family);
}

double bus_bandwidth(const Cluster& cluster, Collective collective, std::int64_t bytes) {
  return static_cast<double>(bytes) / time_of(cluster, collective, bytes).time.value *
         bus_bandwidth_factor(collective, cluster.gpus) * 1e-9;
}

// Eight cards over two sockets without peer access reach 1.4 to 35 GB/s, by their host (nccl#1130,
// nccl#1639, nccl-tests#74): one slow host is not all of them, and what was measured of it stays.
TEST(CollectiveCost, OneSlowHostDoesNotSpeakForAllThatGoThroughHostMemory) {
  constexpr std::int64_t kLarge = std::int64_t{4} << 30;
  const double usual = bus_bandwidth(load_cluster("rtx4090"), Collective::kAllReduce, kLarge);
  EXPECT_GT(usual, 3.0);
  EXPECT_LT(usual, 15.0);
  EXPECT_NEAR(bus_bandwidth(load_cluster("l40s"), Collective::kAllReduce, kLarge), 1.5, 0.2);
}

// NCCL's graph search, worked by hand: channels x speed.
TEST(NcclGraph, SingleNodeChannels) {
  const auto graph_of = [](const char* name) {
    const Cluster cluster = load_cluster(name);
    return nccl_graph(cluster, everyone(cluster));
  };
  const NcclGraph a100 = graph_of("dgx-a100-80gb");  // 12 links x 20 = 240 = 6 x 40, split in two
  EXPECT_EQ(a100.channels, 12);
  EXPECT_DOUBLE_EQ(a100.channel_speed, 20.0);
  const NcclGraph h100 = graph_of("dgx-h100");  // 18 x 20.6 = 370.8: 6 x 60, split
  EXPECT_EQ(h100.channels, 12);
  EXPECT_DOUBLE_EQ(h100.channel_speed, 30.0);
  EXPECT_EQ(h100.nvls_heads, 8);
  EXPECT_DOUBLE_EQ(h100.nvls_intra, 40.0);      // 370.8 / 8 = 46: rung 40
  const NcclGraph b200 = graph_of("dgx-b200");  // 18 x 40.1 = 721.8: 8 x 90, split
  EXPECT_EQ(b200.channels, 16);
  EXPECT_DOUBLE_EQ(b200.channel_speed, 45.0);
}

// The ring's network plateau: the sum over NICs of the highest rung below the NIC's rate.
TEST(NcclGraph, RingOverNetworks) {
  const auto bus = [](const Cluster& cluster) {
    const NcclGraph graph = nccl_graph(cluster, everyone(cluster));
    return graph.channels * graph.channel_speed;
  };
  EXPECT_DOUBLE_EQ(bus(machine("oci-gpu4", 32)), 192.0);         // 16 x 12
  EXPECT_DOUBLE_EQ(bus(machine("dgx-a100-80gb", 32)), 192.0);    // 8 x 24
  EXPECT_DOUBLE_EQ(bus(machine("dgx-a100-40gb", 24, 4)), 96.0);  // 4 x 24
  EXPECT_DOUBLE_EQ(bus(machine("dgx-h100", 32)), 384.0);         // 8 x 48
  EXPECT_DOUBLE_EQ(bus(machine("dgx-h100", 40, 4)), 192.0);      // 4 x 48
}

// Machines of which a dump or a log holds both the topology and the ring graph that NCCL's own
// search made of it: channels times their speed, GB/s.
struct Published {
  const char* source;
  Cluster cluster;
  double rings;
};

Cluster small_nodes(const char* gpu, Node::Fabric fabric, int gpus, std::int64_t nodes) {
  Cluster cluster = load_cluster("l40s");
  cluster.gpu = find_gpu(gpu, "test");
  Node& node = cluster.node;
  node.gpus = gpus;
  node.fabric = fabric;
  node.nvlink_domain = fabric == Node::Fabric::kPcie ? 1 : gpus;
  node.nvlink_per_gpu = cluster.gpu.nvlink_per_gpu;
  node.nvlink_links = cluster.gpu.nvlink_links;
  node.pcie_per_gpu = cluster.gpu.pcie;
  node.nics = nodes > 1 ? 1 : 0;
  cluster.nodes = nodes;
  cluster.gpus = nodes * gpus;
  return cluster;
}

std::vector<Published> published_graphs() {
  using Fabric = Node::Fabric;
  std::vector<Published> all = {
      {"ncv4-graph.xml beside ncv4-topo.xml of Azure/azhpc-images: 2 x 12",
       load_cluster("azure-nc96-a100"), 24.0},
      {"NVIDIA/nccl issue 1189, two H20 and two NICs of 400 Gbit/s a node: 4 x 24",
       small_nodes("H20", Fabric::kNvSwitch, 2, 2), 96.0},
      {"NVIDIA/nccl issue 601, four GPUs and four NICs of 10 Gbit/s a node: 4 x 1.2",
       small_nodes("V100-PCIe-32GB", Fabric::kPcie, 4, 2), 4.8},
      {"a log of one A100 a node with 200 Gbit/s: 1 x 24",
       small_nodes("A100-PCIe-40GB", Fabric::kPcie, 1, 2), 24.0},
      {"a log of Soft-RoCE at 0.3125 GB/s, a GPU a node: 1 x 0.24",
       small_nodes("T4", Fabric::kPcie, 1, 3), 0.24},
      {"NVIDIA/nccl issue 1358, two GPUs on two Skylake sockets through host memory: 1 x 10",
       small_nodes("A100-PCIe-40GB", Fabric::kPcie, 2, 1), 10.0},
      {"a log of two Radeon cards, one at x4 of generation 4 below the other's bridge: 1 x 6",
       small_nodes("MI210", Fabric::kPcie, 2, 1), 6.0}};
  for (std::size_t i = 1; i < all.size(); ++i) {
    all[i].cluster.node.nics = i == 1 ? 2 : (i == 2 ? 4 : all[i].cluster.node.nics);
  }
  all[1].cluster.node.nic = BytesPerSecond(50e9);
  all[2].cluster.node.nic = BytesPerSecond(1.25e9);
  all[3].cluster.node.nic = BytesPerSecond(25e9);
  all[4].cluster.node.nic = BytesPerSecond(0.3125e9);
  all[5].cluster.node.socket_link = BytesPerSecond(10e9);
  all[5].cluster.node.peer_to_peer = false;
  all[5].cluster.node.gpus_per_pcie_switch = 1;
  all[5].cluster.node.sockets = 2;
  all[6].cluster.node.pcie_per_gpu = BytesPerSecond(7.875e9);
  return all;
}

TEST(NcclGraph, RingsAreThoseOfPublishedGraphs) {
  for (const Published& machine : published_graphs()) {
    const NcclGraph graph = nccl_graph(machine.cluster, everyone(machine.cluster));
    EXPECT_NEAR(graph.channels * graph.channel_speed, machine.rings, 1e-9) << machine.source;
  }
  // NVIDIA/nccl issue 713: four V100 with two links to each other have six rings of one link.
  const Cluster mesh = small_nodes("V100-SXM2-32GB", Node::Fabric::kMesh, 4, 1);
  EXPECT_EQ(nccl_graph(mesh, everyone(mesh)).channels, 6);
  // A log of four Radeon Pro W6800X with a link to two others each: two rings, one each way round.
  EXPECT_EQ(ring_count({{0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}}, {0, 1, 2, 3}), 2);
}

// Marks a table of rings used so far; finds the most edge-disjoint directed Hamiltonian cycles by
// brute force.
class RingPacking {
 public:
  explicit RingPacking(int n) : n_(n) {
    constexpr int kLinks[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                                  {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                                  {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                  {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 8; ++j) {
        left_[i][j] = kLinks[i][j];
      }
    }
  }
  // Whether `wanted` more rings fit.
  bool fits(int wanted) { return wanted == 0 || extend(0, 1U, wanted); }

 private:
  bool extend(int at, unsigned visited, int wanted) {
    const bool all = visited == (1U << n_) - 1U;
    for (int next = 0; next < n_; ++next) {
      const bool closes = all && next == 0;
      if (left_[at][next] == 0 || (!closes && ((visited >> next) & 1U) != 0U)) {
        continue;
      }
      --left_[at][next];
      const bool found = closes ? fits(wanted - 1) : extend(next, visited | (1U << next), wanted);
      ++left_[at][next];
      if (found) {
        return true;
      }
    }
    return false;
  }
  int n_;
  int left_[8][8] = {};
};

TEST(NcclGraph, CubeMeshRingsAreWhatTheLinksAllow) {
  for (const int n : {2, 3, 4, 6, 7, 8}) {
    EXPECT_TRUE(RingPacking(n).fits(cube_mesh_rings(n))) << n;
    if (n != 8) {  // six links a GPU bound eight GPUs at six rings
      EXPECT_FALSE(RingPacking(n).fits(cube_mesh_rings(n) + 1)) << n;
    }
  }
  // Five GPUs have no ring of links at all (GPU 4 reaches GPU 0 only): two rings go through GPU 0
  // twice.
  EXPECT_FALSE(RingPacking(5).fits(1));
}

// Two HGX A100 with 4 x 200 Gbit/s were measured at 86 to 91 GB/s; 177, the wire as a tree has it,
// was said of them.
TEST(Nccl, TwoNodesOverHalfTheAdaptersReachNoMoreThanTheWire) {
  Cluster cluster = machine("dgx-a100-80gb", 16, 4);
  EXPECT_NEAR(bus_bandwidth(cluster, Collective::kAllReduce, 4 * kGiB), 90, 9);
  apply_nccl_setting(cluster.nccl, "NCCL_ALGO", "Ring", "here");
  EXPECT_NEAR(bus_bandwidth(cluster, Collective::kAllReduce, 4 * kGiB), 90, 9);
}

TEST(Nccl, ChoosesByGenerationAndSize) {
  const Cluster h100 = load_cluster("dgx-h100");
  EXPECT_EQ(time_of(h100, Collective::kAllReduce, 1024).protocol, "LL");
  EXPECT_EQ(time_of(h100, Collective::kAllReduce, kGiB).algorithm, "nvls");
  EXPECT_EQ(time_of(h100, Collective::kAllGather, kGiB).algorithm, "ring");
  EXPECT_EQ(time_of(load_cluster("dgx-a100-80gb"), Collective::kAllReduce, kGiB).algorithm, "ring");
  EXPECT_EQ(time_of(load_cluster("dgx-h100x2"), Collective::kAllReduce, kGiB).algorithm,
            "nvls_tree");
  EXPECT_EQ(time_of(load_cluster("l40s"), Collective::kAllReduce, kMiB / 2).protocol == "LL128",
            false);
}

// NCCL's own latency of a ring all-reduce over 8 GPUs, LL: 6.6 + 14 x 0.6 = 15.0 us; its bandwidth
// is 8/14 of LL's cap min(141, 360 / 2) = 141 GB/s, so 1 MiB takes 15.0 + 1048576 / (80.57e3)
// = 28.01 us.
TEST(Nccl, NominalRingArithmetic) {
  const Cluster cluster = load_cluster("dgx-h100");
  NetworkFit plain;
  plain.latency_us = 0;
  const NcclGraph graph = nccl_graph(cluster, everyone(cluster));
  const NcclTime time = nccl_time_of(graph, {}, plain, Collective::kAllReduce, 1048576.0,
                                     NcclAlgorithm::kRing, NcclProtocol::kLL);
  EXPECT_NEAR(time.nominal_us, 15.0 + 1048576.0 / (141.0 * 8.0 / 14.0 * 1e3), 1e-9);
  // Tree over 2 nodes of 8, LL: 6.8 + 2 (7 x 0.6 + 1 x 5.0) = 25.2 us.
  const Cluster two = load_cluster("dgx-h100x2");
  const NcclTime tree =
      nccl_time_of(nccl_graph(two, everyone(two)), {}, plain, Collective::kAllReduce, 1.0,
                   NcclAlgorithm::kTree, NcclProtocol::kLL);
  EXPECT_NEAR(tree.nominal_us, 25.2, 0.01);
}

// What practitioners report (docs/accuracy.md), within what separates two such
// runs.
TEST(Practitioners, NicCountLimitsRings) {
  // Five nodes with 4 x 400G: 190 GB/s for the ring, which 4 x 48 = 192 limits; the answer names
  // the NICs.
  const Cluster cluster = machine("dgx-h100", 40, 4);
  EXPECT_NEAR(bus_bandwidth(cluster, Collective::kAllReduce, 8 * kGiB), 190.0, 15.0);
  EXPECT_NE(time_of(cluster, Collective::kAllReduce, 8 * kGiB).bottleneck.find("4 x 400 Gbit/s"),
            std::string::npos);
}

// Six of 18 links join a pair of a board without switches: 150 GB/s one way (eight of a DGX have
// all of theirs). Four ranks use all 18.
TEST(CollectiveCost, APairOnABoardOfFourHasAThirdOfItsLinks) {
  const double pair = bus_bandwidth(machine("hgx-h200-4", 2), Collective::kAllReduce, kGiB);
  EXPECT_LT(pair, 150.0);
  EXPECT_GT(pair, 100.0);
  EXPECT_GT(bus_bandwidth(machine("hgx-h200", 2), Collective::kAllReduce, kGiB), 2 * pair);
  EXPECT_GT(bus_bandwidth(machine("hgx-h200-4", 4), Collective::kAllReduce, kGiB), 2 * pair);
}

TEST(Practitioners, TwoNodeGainVanishes) {
  // H100, 8 x 400G: over 2 nodes the tree passes what 8 x 48 allow a ring; at 4 nodes it is gone.
  const double two = bus_bandwidth(load_cluster("dgx-h100x2"), Collective::kAllReduce, 8 * kGiB);
  const double four = bus_bandwidth(load_cluster("dgx-h100x4"), Collective::kAllReduce, 8 * kGiB);
  EXPECT_GT(two, 1.1 * 384.0);
  EXPECT_LT(four, 400.0);
}

TEST(Practitioners, LargeClusterKeepsItsRate) {
  // 248 nodes of H200, 512 MB: about 350 GB/s, dips below 300.
  EXPECT_NEAR(bus_bandwidth(load_cluster("hgx-h200x248"), Collective::kAllReduce, 512'000'000),
              350.0, 60.0);
}

TEST(Practitioners, MeshOfAmdUsesOneLinkForTwo) {
  // MI300X: two of eight reach 47.7, all eight 312.9.
  EXPECT_NEAR(bus_bandwidth(machine("mi300x", 2), Collective::kAllReduce, 4 * kGiB), 47.7, 4.8);
  EXPECT_NEAR(bus_bandwidth(machine("mi300x", 8), Collective::kAllReduce, 4 * kGiB), 312.9, 31.0);
}

TEST(Practitioners, CutLinksScaleNvls) {
  // H800 with 8 of 18 links: 215; H100: 480, more than the 450 of the links.
  EXPECT_NEAR(bus_bandwidth(load_cluster("hgx-h800"), Collective::kAllReduce, 8 * kGiB), 215.0,
              20.0);
  EXPECT_NEAR(bus_bandwidth(load_cluster("dgx-h100"), Collective::kAllReduce, 8 * kGiB), 480.0,
              15.0);
}

TEST(Practitioners, AllNicsAreUsed) {
  // Four p6-B200: 4 GiB in 22.05 ms; one NIC alone would take 85.9 ms.
  EXPECT_NEAR(time_of(load_cluster("aws-p6-b200x4"), Collective::kAllReduce, 4 * kGiB).time.value,
              22.05e-3, 3.3e-3);
}

TEST(Groups, NicsAreSharedByConcurrentGroups) {
  // Data-parallel groups, one member a node, eight of them side by side over 8 NICs: one NIC each.
  const Cluster cluster = load_cluster("dgx-h100x16");
  const NcclGraph one = nccl_graph(cluster, group_shape(cluster, 16, 8));
  EXPECT_DOUBLE_EQ(one.net_total, 50.0);
  // A group of all ranks has all eight.
  EXPECT_DOUBLE_EQ(nccl_graph(cluster, group_shape(cluster, 128, 1)).net_total, 400.0);
  // Four members a node, two groups: four NICs each.
  EXPECT_DOUBLE_EQ(nccl_graph(cluster, group_shape(cluster, 64, 2)).net_total, 200.0);
}

TEST(Groups, OversubscribedSpinesSlowGroupsThatCrossUnits) {
  Cluster cluster = load_cluster("dgx-h100x256");
  cluster.network.oversubscription = 4.0;
  // Neighbours 32 nodes apart: every hop leaves its unit of 32 nodes, so the ring gets a quarter of
  // its NIC.
  EXPECT_DOUBLE_EQ(nccl_graph(cluster, group_shape(cluster, 8, 256)).uplink_slowdown, 4.0);
  // Neighbours one node apart: one hop in 32 crosses, which the uplinks carry.
  EXPECT_DOUBLE_EQ(nccl_graph(cluster, group_shape(cluster, 256, 8)).uplink_slowdown, 1.0);
}

// NCCL's choice is not always the fastest algorithm, so faster links may cost a little where they
// change it.
TEST(Relations, TimesGrowWithSizeAndShrinkWithBandwidth) {
  for (const char* name :
       {"dgx-h100", "dgx-a100-80gbx4", "gb200-nvl72x2", "l40s", "mi300xx2", "aws-p4dx8"}) {
    const Cluster cluster = load_cluster(name);
    Cluster faster = cluster;
    faster.node.nic = 2.0 * faster.node.nic;
    faster.node.nvlink_per_gpu = 2.0 * faster.node.nvlink_per_gpu;
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kAllToAll, Collective::kBroadcast, Collective::kSendRecv}) {
      double previous = 0.0;
      for (std::int64_t bytes = 64 * kMiB; bytes <= 16 * kGiB; bytes *= 4) {
        const double now = time_of(cluster, collective, bytes).time.value;
        EXPECT_GT(now, previous) << name << " " << bytes;
        EXPECT_LE(time_of(faster, collective, bytes).time.value, 1.12 * now)
            << name << " " << bytes;
        previous = now;
      }
    }
  }
}

TEST(Relations, OneRankTakesNoTime) {
  EXPECT_EQ(time_of(machine("dgx-h100", 1), Collective::kAllReduce, kGiB).time.value, 0.0);
}

// The textbook costs, with alpha = 2 us, beta = 1 / (100 GB/s), 8 ranks, 100
// MB.
TEST(Textbook, WorkedValues) {
  const AlphaBeta link{2e-6, 1e-11};
  const double n = 1e8;  // 1 ms over the link
  EXPECT_NEAR(log_p_seconds(8, link, n), 3 * (2e-6 + 1e-3), 1e-15);
  EXPECT_NEAR(ring_seconds(Collective::kAllReduce, 8, link, n), 14 * 2e-6 + 1.75e-3, 1e-15);
  EXPECT_NEAR(ring_seconds(Collective::kAllGather, 8, link, n), 7 * 2e-6 + 0.875e-3, 1e-15);
  EXPECT_NEAR(tree_seconds(Collective::kAllReduce, 8, link, n), 6 * 2e-6 + 2e-3, 1e-15);
  EXPECT_NEAR(tree_seconds(Collective::kAllToAll, 8, link, n), 3 * (2e-6 + 0.5e-3), 1e-15);
  EXPECT_NEAR(tree_seconds(Collective::kBroadcast, 8, link, n), 3 * (2e-6 + 1e-3), 1e-15);
  // Two nodes of four: RS and AG inside move 3/4 each at 1 ms, AR between moves 2/2 of a quarter at
  // 10 ms a vector.
  const AlphaBeta outside{5e-6, 1e-10};
  EXPECT_NEAR(hierarchical_seconds(Collective::kAllReduce, 4, 2, link, outside, n),
              2 * (3 * 2e-6 + 0.75e-3) + 2 * 5e-6 + 2.5e-3, 1e-15);
}

TEST(Textbook, EveryFamilyAnswers) {
  const Cluster cluster = load_cluster("dgx-h100x4");
  for (const CostFamily family :
       {CostFamily::kLogP, CostFamily::kRing, CostFamily::kTree, CostFamily::kHierarchical}) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kAllToAll, Collective::kBroadcast, Collective::kSendRecv}) {
      const double seconds = time_of(cluster, collective, 64 * kMiB, family).time.value;
      EXPECT_TRUE(std::isfinite(seconds) && seconds > 0.0);
    }
  }
}

}  // namespace
}  // namespace trireme::topologies
