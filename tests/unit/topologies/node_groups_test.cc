// Clusters of unlike nodes: which rank is where, what a group of ranks has and what it shares.
#include "topologies/node_groups.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"
#include "topologies/collective_cost.h"
#include "topologies/nccl_graph.h"
#include "topologies/routes.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

using Json = nlohmann::json;

Cluster read_mixed(const Json& json) {
  JsonReader reader(json, "mixed");
  return read_cluster(reader, network_presets());
}

// One node of four A100 with two NICs of 25 GB/s, then two of eight H100 with eight of 50 GB/s.
Json mixed() {
  return Json::parse(R"({"format": "trireme.topology/1", "name": "mixed", "groups": [
    {"gpu": "A100-SXM4-80GB", "node": {"gpus": 4, "fabric": "nvswitch", "nics": 2, "nic": "200 Gbit/s"}},
    {"gpu": "H100-SXM5-80GB", "nodes": 2,
     "node": {"gpus": 8, "fabric": "nvswitch", "nics": 8, "nic": "400 Gbit/s", "gpus_per_pcie_switch": 1}}],
    "network": "NDR InfiniBand"})");
}

TEST(NodeGroups, EveryRankHasItsNodeAndCard) {
  const Cluster cluster = read_mixed(mixed());
  EXPECT_EQ(cluster.nodes, 3);
  EXPECT_EQ(cluster.gpus, 20);
  EXPECT_EQ(cards_text(cluster), "4 x A100-SXM4-80GB + 16 x H100-SXM5-80GB");
  EXPECT_EQ(card_names(cluster), "A100-SXM4-80GB + H100-SXM5-80GB");
  for (const auto& [rank, node, first] :
       {std::array{0, 0, 0}, {3, 0, 0}, {4, 1, 4}, {11, 1, 4}, {12, 2, 12}, {19, 2, 12}}) {
    EXPECT_EQ(node_of_rank(cluster, rank), node) << rank;
    EXPECT_EQ(first_rank_of(cluster, node), first) << rank;
  }
  EXPECT_EQ(node_at(cluster, 0).gpus, 4);
  EXPECT_EQ(node_at(cluster, 2).gpus, 8);
  // (4 x 312 + 16 x 989.4) / 20 TFLOP/s; 4 x 400 + 16 x 700 W.
  EXPECT_NEAR(mean_peak(cluster, Precision::kBf16).value, 853.9e12, 0.1e12);
  EXPECT_DOUBLE_EQ(board_watts(cluster), 12'800);
}

TEST(NodeGroups, AllKeepUpWithTheSlowest) {
  const Cluster cluster = read_mixed(mixed());
  EXPECT_EQ(cluster.gpu.name, "A100-SXM4-80GB");
  EXPECT_EQ(cluster.node.gpus, 4);
  EXPECT_DOUBLE_EQ(cluster.node.nics * cluster.node.nic.value, 50e9);
  EXPECT_FALSE(cluster.gpu.peak_dense.contains(Precision::kFp8));
  const Cluster fast = viewed_from(cluster, 1);
  EXPECT_EQ(fast.gpu.name, "H100-SXM5-80GB");
  EXPECT_DOUBLE_EQ(fast.node.nics * fast.node.nic.value, 400e9);
}

TEST(NodeGroups, AGroupInsideANodeOfItsKindStaysThere) {
  const Cluster cluster = read_mixed(mixed());
  const Cluster first = viewed_from(cluster, 0);
  const Cluster second = viewed_from(cluster, 1);
  // Fours from rank 0 on: one node each, everywhere.
  EXPECT_EQ(group_shape(cluster, 4, 1).ranks_per_node, 4);
  EXPECT_EQ(group_shape(second, 4, 1).concurrent_per_node, 2);
  // Eights from rank 0 on: ranks 0 to 7 are of two nodes, 8 to 15 of two others.
  EXPECT_EQ(group_shape(second, 8, 1).ranks_per_node, 4);
  // Twos stay in the node of four too.
  EXPECT_EQ(group_shape(first, 2, 1), (GroupShape{2, 2, 1, 2}));
  // All: 4, 8 and 8, as five of the narrowest node; within a node over NVLink.
  EXPECT_EQ(group_shape(cluster, 20, 1), (GroupShape{20, 4, 1, 1}));
  EXPECT_EQ(nccl_graph(cluster, group_shape(cluster, 20, 1)).path, IntraPath::kNvlink);
}

TEST(NodeGroups, RoutesCrossTheLinksOfTheirOwnNodes) {
  const Cluster cluster = read_mixed(mixed());
  EXPECT_DOUBLE_EQ(route(cluster, 0, 3).bottleneck.value, 300e9);
  EXPECT_DOUBLE_EQ(route(cluster, 4, 11).bottleneck.value, 450e9);
  EXPECT_DOUBLE_EQ(route(cluster, 4, 12).bottleneck.value, 50e9);
  EXPECT_DOUBLE_EQ(route(cluster, 0, 4).bottleneck.value, 25e9);
}

TEST(NodeGroups, NarrowedKeepsTheFirstGpus) {
  const Cluster cluster = read_mixed(mixed());
  const Cluster some = narrowed(cluster, 14);
  EXPECT_EQ(cards_text(some), "4 x A100-SXM4-80GB + 10 x H100-SXM5-80GB");
  EXPECT_EQ(some.nodes, 3);
  // One kind is left: a cluster of alike nodes.
  const Cluster one = narrowed(cluster, 3);
  EXPECT_FALSE(has_unlike_nodes(one));
  EXPECT_EQ(one.gpus, 3);
  EXPECT_EQ(one.gpu.name, "A100-SXM4-80GB");
  EXPECT_EQ(with_gpus_per_node(cluster, 4).gpus, 12);
}

TEST(NodeGroups, WrittenReadsBackTheSame) {
  const nlohmann::ordered_json written = cluster_to_json(read_mixed(mixed()));
  EXPECT_EQ(cluster_to_json(read_mixed(Json::parse(written.dump()))), written);
}

TEST(NodeGroups, WrongOnesAreNamed) {
  const auto error = [](const Json& json) -> std::string {
    try {
      read_mixed(json);
    } catch (const Error& wrong) {
      return wrong.what();
    }
    return "";
  };
  Json json = mixed();
  json["gpu"] = "A100-SXM4-80GB";
  EXPECT_NE(error(json).find("stands beside 'groups'"), std::string::npos) << error(json);
  json = mixed();
  json["groups"] = Json::array();
  EXPECT_NE(error(json).find("has 0 entries"), std::string::npos) << error(json);
  json = mixed();
  json["groups"][0]["node"]["nics"] = 0;
  json["groups"][0]["node"].erase("nic");
  EXPECT_NE(error(json).find("not all have a network"), std::string::npos) << error(json);
  json = mixed();
  json["groups"][1]["card"] = "x";
  EXPECT_NE(error(json).find("card"), std::string::npos) << error(json);
}

// P26: 2 to 8 GPUs of one node in a cluster of several, together and in groups.
TEST(Groups, InOneNodeOfManyUseNoNic) {
  for (const std::string& name : cluster_preset_names()) {
    Cluster preset = load_cluster(name);
    if (preset.node.nics == 0 || preset.node.gpus != 8) {
      continue;
    }
    preset = load_cluster(name + "x2");
    for (int gpus = 2; gpus <= 8; ++gpus) {
      const Cluster some = narrowed(preset, gpus);
      for (int degree = 2; degree <= gpus; ++degree) {
        for (int stride = 1; degree * stride <= gpus; ++stride) {
          const NcclGraph graph = nccl_graph(some, group_shape(some, degree, stride));
          EXPECT_EQ(graph.nodes, 1) << name << " " << gpus << " " << degree << " " << stride;
          EXPECT_EQ(graph.net_total, 0.0) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::topologies
