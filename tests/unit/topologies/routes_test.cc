#include "topologies/routes.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "topologies/cluster_graph.h"
#include "topologies/drawing.h"

namespace trireme::topologies {
namespace {

TEST(Routes, InsideANvSwitchNode) {
  // GPU0 -> NVSwitch -> GPU5: 450 GB/s, twice half of 0.7 us.
  const Route found = route(load_cluster("dgx-h100"), 0, 5);
  ASSERT_EQ(found.hops.size(), 2U);
  EXPECT_DOUBLE_EQ(found.bottleneck.value, 450e9);
  EXPECT_NEAR(found.latency.value, 0.7e-6, 1e-12);
  EXPECT_EQ(found.hops[0].link, "GPU0 -> NVSwitch0");
}

TEST(Routes, CubeMeshGoesThroughANeighbour) {
  const Cluster cluster = load_cluster("dgx1-v100");
  // Two links between GPU 0 and 4, of 25 GB/s each; GPU 0 and 5 have none, so a neighbour of both
  // forwards.
  EXPECT_DOUBLE_EQ(route(cluster, 0, 4).bottleneck.value, 50e9);
  const Route forwarded = route(cluster, 0, 5);
  ASSERT_EQ(forwarded.hops.size(), 2U);
  EXPECT_DOUBLE_EQ(forwarded.bottleneck.value, 25e9);
}

TEST(Routes, MeshHasOneLinkAPair) {
  // MI300X: 448 GB/s over seven peers.
  EXPECT_DOUBLE_EQ(route(load_cluster("mi300x"), 2, 7).bottleneck.value, 64e9);
}

TEST(Routes, WithoutPeerToPeerThroughTheHost) {
  // GPUs 0 and 4 of eight 4090: GPU -> CPU0 -> CPU1 -> GPU, and the sockets' 10 GB/s is the limit.
  const Route found = route(load_cluster("rtx4090"), 0, 7);
  EXPECT_EQ(found.hops.size(), 3U);
  EXPECT_DOUBLE_EQ(found.bottleneck.value, 10e9);
  EXPECT_EQ(found.bottleneck_link, "CPU0 -> CPU1");
}

TEST(Routes, SameRailCrossesOneSwitch) {
  // GPU 3 of node 0 to GPU 3 of node 5, one unit: PCIe switch, NIC, leaf, NIC, PCIe switch.
  const Cluster cluster = load_cluster("dgx-h100x16");
  const Route found = route(cluster, 3, 5 * 8 + 3);
  ASSERT_EQ(found.hops.size(), 6U);
  EXPECT_DOUBLE_EQ(found.bottleneck.value, 50e9);
  EXPECT_EQ(found.hops[2].link, "NIC3 -> leaf 3");
  EXPECT_EQ(found.hops[3].link, "leaf 3 -> NIC3 of node 5");
}

TEST(Routes, OtherRailChangesInsideTheNode) {
  // GPU 0 to GPU 1 of the next node: over NVLink to a GPU of the other rail first (or last), no
  // spine.
  const Route found = route(load_cluster("dgx-h100x16"), 0, 9);
  for (const Hop& hop : found.hops) {
    EXPECT_EQ(hop.link.find("spine"), std::string::npos) << hop.link;
  }
  EXPECT_EQ(found.hops.size(), 8U);
}

TEST(Routes, UnitsMeetInSeededSpines) {
  // Nodes 0 and 100 are in different units of 32; 4:1 oversubscription over 4 spines: a leaf has 32
  // x 50 GB/s down, 400 up, 100 to each spine.
  Cluster cluster = load_cluster("dgx-h100x128");
  cluster.network.oversubscription = 4.0;
  std::set<std::string> spines;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    const Route found = route(cluster, 2, 100 * 8 + 2, seed);
    ASSERT_EQ(found.hops.size(), 8U);
    EXPECT_NEAR(found.hops[3].bandwidth.value, 100e9, 1.0);
    spines.insert(found.hops[3].link);
    EXPECT_EQ(route(cluster, 2, 100 * 8 + 2, seed).hops[3].link,
              found.hops[3].link);  // a flow keeps its spine
  }
  EXPECT_EQ(spines.size(), 4U);
}

TEST(Routes, LargeClustersCostNoMore) {
  const Cluster cluster = load_cluster("dgx-h100x16384");
  ASSERT_EQ(cluster.gpus, 131072);
  EXPECT_DOUBLE_EQ(route(cluster, 0, 131071).bottleneck.value, 50e9);
  EXPECT_LT(pair_graph(cluster, 0, 16383, 0).devices.size(), 200U);
}

TEST(Routes, BadRanksAreErrors) {
  const Cluster cluster = load_cluster("dgx-h100x2");
  EXPECT_THROW(route(cluster, 0, 16), Error);
  EXPECT_THROW(route(cluster, -1, 3), Error);
  EXPECT_TRUE(route(cluster, 3, 3).hops.empty());
}

TEST(GroupBottleneck, NvlinkInsideNicsOutside) {
  const Cluster cluster = load_cluster("dgx-h100x16");
  EXPECT_NEAR(group_bottleneck(cluster, group_shape(cluster, 8, 1)).bottleneck.value, 450e9, 1e3);
  // All ranks: a ring has the node's eight NICs.
  EXPECT_NEAR(group_bottleneck(cluster, group_shape(cluster, 128, 1)).bottleneck.value, 400e9, 1e3);
  // One member a node, eight groups side by side: one NIC each.
  EXPECT_NEAR(group_bottleneck(cluster, group_shape(cluster, 16, 8)).bottleneck.value, 50e9, 1e3);
}

TEST(GroupBottleneck, OversubscribedUplinks) {
  Cluster cluster = load_cluster("dgx-h100x256");
  cluster.network.oversubscription = 4.0;
  // Members 32 nodes apart: every hop leaves its unit, 50 / 4 GB/s.
  const Route found = group_bottleneck(cluster, group_shape(cluster, 8, 256));
  EXPECT_NEAR(found.bottleneck.value, 12.5e9, 1e3);
  EXPECT_EQ(found.bottleneck_link, "leaf -> spine");
}

TEST(Graph, EveryPresetConnectsAllItsGpus) {
  for (const std::string& name : cluster_preset_names()) {
    const Cluster cluster = load_cluster(name);
    for (std::int64_t to = 1; to < cluster.gpus; ++to) {
      const Route found = route(cluster, 0, to);
      EXPECT_GT(found.bottleneck.value, 0.0) << name;
      EXPECT_GT(found.latency.value, 0.0) << name;
    }
  }
}

TEST(Drawing, ANodeWithItsRanks) {
  // Two sockets of two switches; one GPU a switch and its NIC.
  Cluster cluster = load_cluster("dgx-h100x2");
  const std::string second = node_drawing(cluster, 1);
  EXPECT_NE(second.find("GPU0 (rank 8)  NIC0\n"), std::string::npos) << second;
  EXPECT_NE(second.find("  NVSwitch: GPU0-7, 450 GB/s each, one way\n"), std::string::npos);
  EXPECT_NE(node_drawing(narrowed(cluster, 10), 1).find("GPU2 (not in use)"), std::string::npos);
  EXPECT_NE(node_drawing(load_cluster("dgx1-v100"), 0).find("  GPU0: 2 links each to GPU3 GPU4\n"),
            std::string::npos);
  cluster.node.peer_to_peer = false;
  cluster.node.fabric = Node::Fabric::kPcie;
  EXPECT_NE(node_drawing(cluster, 0).find("through host memory"), std::string::npos);
}

TEST(Drawing, ForGraphviz) {
  const std::string dot = dot_text(load_cluster("dgx-h100x2"));
  EXPECT_TRUE(dot.starts_with("graph \"dgx-h100x2\" {"));
  EXPECT_NE(dot.find("GPU7 of node 1\\nrank 15"), std::string::npos) << dot;
  EXPECT_NE(dot.find("[label=\"50 GB/s\"]"), std::string::npos);
}

}  // namespace
}  // namespace trireme::topologies
