// Networks above their leaves: what traffic meets there, by hand counts.
#include "topologies/network_tiers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"
#include "imported.h"
#include "topologies/collective_cost.h"
#include "topologies/nccl_graph.h"
#include "topologies/routes.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

using Json = nlohmann::json;

// 32 nodes of eight H100 with eight NICs of 50 GB/s on one leaf set each 4 nodes.
Json network_of(const Json& network, int nodes = 32) {
  Json json = Json::parse(R"({"format": "trireme.topology/1", "name": "n", "gpu": "H100-SXM5-80GB",
    "node": {"gpus": 8, "fabric": "nvswitch", "nics": 8, "nic": "400 Gbit/s", "gpus_per_pcie_switch": 1}})");
  json["nodes"] = nodes;
  json["network"] = network;
  return json;
}

Cluster read_tiers(const Json& json) {
  JsonReader reader(json, "network");
  return read_cluster(reader, network_presets());
}

Json three_levels() {
  return {
      {"name", "NDR InfiniBand"},
      {"kind", "fat_tree"},
      {"nodes_per_unit", 4},
      {"oversubscription", 2},
      {"switch_latency", "0.2 us"},
      {"levels", {{{"name", "pod"}, {"nodes", 8}, {"oversubscription", 4}, {"latency", "1 us"}}}}};
}

Json two_sites(const std::string& latency = "10 ms") {
  return {
      {"name", "NDR InfiniBand"},
      {"kind", "fat_tree"},
      {"nodes_per_unit", 16},
      {"oversubscription", 1},
      {"switch_latency", "0.2 us"},
      {"levels", {{{"name", "site"}, {"nodes", 16}, {"out", "100 Gbit/s"}, {"latency", latency}}}}};
}

double seconds(const Cluster& cluster, Collective op, std::int64_t bytes, std::int64_t ranks,
               std::int64_t stride) {
  return collective_time(cluster, shipped_profile(), op, group_shape(cluster, ranks, stride),
                         Bytes(bytes))
      .time.value;
}

// A pod must hold whole units, as far as either is listed.
TEST(Tiers, PartsOfALevelHoldWholeOnesOfTheLevelBelow) {
  Json network = three_levels();
  network["unit_nodes"] = {4, 2, 4, 4};
  network["levels"][0]["part_nodes"] = {6, 8};
  const Cluster cluster = read_tiers(network_of(network, 14));
  EXPECT_EQ(part_of_node(cluster, 1, 5), 0);
  EXPECT_EQ(part_of_node(cluster, 1, 6), 1);
  EXPECT_EQ(part_size(cluster, 1, 1), 8);
  network["levels"][0]["part_nodes"] = {8, 6};  // ends within the third unit
  EXPECT_THROW(read_tiers(network_of(network, 14)), Error);
}

TEST(Tiers, AFatTreeOfThreeLevels) {
  const Cluster cluster = read_tiers(network_of(three_levels()));
  // Members 8 nodes apart: every hop leaves its pod, at 4:1.
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 8, 4), 4.0);
  // 4 nodes apart: every hop leaves its unit at 2:1, half of them a pod at 4:1.
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 4, 8), 2.0);
  // Four neighbouring nodes are one unit.
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 1, 4), 1.0);
  // From each to all: 7/8 leave a unit at 2:1, 3/4 a pod at 4:1.
  EXPECT_DOUBLE_EQ(spread_slowdown(cluster, 32), 3.0);
  // leaf, spine, core, spine, leaf: 4 units' 8 leaves... one leaf a unit, 1600 GB/s over 2 out of a
  // unit, 3200 over 4 out of a pod.
  const Route far = route(cluster, 0, 8 * 8);
  const auto core =
      std::ranges::find_if(far.hops, [](const Hop& hop) { return hop.link.ends_with("core 0"); });
  ASSERT_NE(core, far.hops.end());
  EXPECT_DOUBLE_EQ(core->bandwidth.value, 800e9);
  EXPECT_NEAR(far.latency.value - route(cluster, 0, 4 * 8).latency.value, 1e-6, 1e-9);
}

TEST(Tiers, TwoSites) {
  const Cluster cluster = read_tiers(network_of(two_sites()));
  // A ring of all 32 nodes crosses twice of 32 hops; a site's 16 nodes have 6400 GB/s, the link
  // 12.5: the ring goes at 12.5 of 400 GB/s.
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 1, 32), 32.0);
  // Groups of one site do not see it.
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 1, 16), 1.0);
  const Cluster near = read_tiers(network_of(two_sites("0 us")));
  const auto longer = [&](Collective op, std::int64_t ranks, std::int64_t stride) {
    return seconds(cluster, op, 8, ranks, stride) - seconds(near, op, 8, ranks, stride);
  };
  EXPECT_NEAR(longer(Collective::kSendRecv, 2, 128), 10e-3, 1e-9);
  EXPECT_NEAR(longer(Collective::kAllToAll, 256, 1), 10e-3, 1e-9);
  // Up one tree and down again.
  EXPECT_NEAR(longer(Collective::kAllReduce, 256, 1), 20e-3, 1e-9);
  EXPECT_NEAR(longer(Collective::kAllReduce, 128, 1), 0, 1e-12);
  const Route wide = route(cluster, 0, 16 * 8);
  EXPECT_DOUBLE_EQ(wide.bottleneck.value, 12.5e9);
  EXPECT_NEAR(wide.latency.value, 10e-3, 20e-6);
  // In one site it is a cluster like any other.
  EXPECT_TRUE(network_tiers(narrowed(cluster, 128)).empty());
}

TEST(Tiers, ADragonfly) {
  const Json network = {{"name", "Slingshot"},
                        {"kind", "dragonfly"},
                        {"nodes_per_unit", 8},
                        {"oversubscription", 2},
                        {"switch_latency", "0.35 us"}};
  const Cluster cluster = read_tiers(network_of(network));
  // Four groups that each send to the next: 2 x 3 / 4 links a message, at 2:1.
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 8, 4), 3.0);
  // From each to all: 3/4 leave, each by its one link.
  EXPECT_DOUBLE_EQ(spread_slowdown(cluster, 32), 1.5);
  // 8 nodes of 400 GB/s at 2:1 over three other groups.
  const Route far = route(cluster, 0, 8 * 8);
  const auto global =
      std::ranges::find_if(far.hops, [](const Hop& hop) { return hop.link == "leaf 0 -> leaf 1"; });
  ASSERT_NE(global, far.hops.end());
  EXPECT_NEAR(global->bandwidth.value, 1600e9 / 3, 1);
}

TEST(Tiers, ATorus) {
  const Json network = {
      {"name", "ICI"}, {"kind", "torus"}, {"torus", {4, 4, 4}}, {"switch_latency", "1 us"}};
  const Cluster cluster = read_tiers(network_of(network, 64));
  EXPECT_EQ(torus_hops(cluster.network, 0, 63), 3);  // -1 along each
  EXPECT_EQ(torus_hops(cluster.network, 0, 2 + 4 * 2 + 16 * 2), 6);
  EXPECT_NEAR(mean_torus_hops(cluster.network), 3.0 * 64 / 63, 1e-12);
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 1, 64), 1.0);
  EXPECT_DOUBLE_EQ(neighbour_slowdown(cluster, 2, 32), 2.0);
  EXPECT_NEAR(route(cluster, 0, 42 * 8).latency.value - route(cluster, 0, 8).latency.value, 5e-6,
              1e-9);
}

TEST(Tiers, WrittenReadsBackTheSame) {
  const Json torus = {
      {"name", "ICI"}, {"kind", "torus"}, {"torus", {8, 4}}, {"switch_latency", "1 us"}};
  for (const Json& network : {three_levels(), two_sites(), torus}) {
    const nlohmann::ordered_json written = cluster_to_json(read_tiers(network_of(network)));
    EXPECT_EQ(cluster_to_json(read_tiers(Json::parse(written.dump()))), written);
  }
}

TEST(Tiers, EveryKeyCounts) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"nodes", 32}, {"out", "10 Gbit/s"}, {"latency", "20 ms"}}) {
    Json other = two_sites();
    other["levels"][0][key] = value;
    EXPECT_NE(seconds(read_tiers(network_of(two_sites())), Collective::kAllToAll, 1 << 20, 256, 1),
              seconds(read_tiers(network_of(other)), Collective::kAllToAll, 1 << 20, 256, 1))
        << key;
  }
}

TEST(Tiers, WrongOnesAreNamed) {
  const auto error = [](const Json& network) -> std::string {
    try {
      read_tiers(network_of(network));
    } catch (const Error& wrong) {
      return wrong.what();
    }
    return "";
  };
  Json network = three_levels();
  network["levels"][0]["nodes"] = 6;
  EXPECT_NE(error(network).find("multiple of the 4 nodes"), std::string::npos) << error(network);
  network = three_levels();
  network["levels"][0]["out"] = "1 GB/s";
  EXPECT_NE(error(network).find("give one of them"), std::string::npos) << error(network);
  network = {{"name", "ICI"}, {"kind", "torus"}, {"torus", {4, 4}}, {"switch_latency", "1 us"}};
  EXPECT_NE(error(network).find("places for 16"), std::string::npos) << error(network);
}

// Unlike leaves below unlike pods, one leaf right below the top: nothing is made even. Three levels
// are two tiers, and what leaves a pod is its own nodes' share.
TEST(Tiers, UnlikeLeavesOnSeveralLevelsAreImportedAsTheyAre) {
  const Imported imported = import(
      "SwitchName=core Switches=s[1-2],l6\nSwitchName=s1 Switches=l[1-2]\n"
      "SwitchName=s2 Switches=l[3-5]\nSwitchName=l1 Nodes=n[01-18]\nSwitchName=l2 Nodes=n[19-36]\n"
      "SwitchName=l3 Nodes=n[37-54]\nSwitchName=l4 Nodes=n[55-62]\nSwitchName=l5 Nodes=n[63-72]\n"
      "SwitchName=l6 Nodes=n[73-74]\n",
      "H100");
  const Cluster cluster = read_back(imported.cluster);
  const Network& network = cluster.network;
  EXPECT_EQ(network.unit_nodes, (std::vector<int>{18, 18, 18, 8, 10, 2}));
  ASSERT_EQ(network.levels.size(), 1U);
  EXPECT_EQ(network.levels[0].part_nodes, (std::vector<int>{36, 36, 2}));
  EXPECT_EQ(network.levels[0].nodes, 36);
  ASSERT_EQ(network_tiers(cluster).size(), 2U);
  EXPECT_EQ(part_of_node(cluster, 1, 35), 0);
  EXPECT_EQ(part_of_node(cluster, 1, 62), 1);
  EXPECT_EQ(part_of_node(cluster, 1, 73), 2);
  EXPECT_DOUBLE_EQ(uplinks_from(cluster, 1, 72).value, 2 * 8 * 50e9);
  // Nodes 36 and 60 are in one pod, 34 and 60 are not: a core lies between.
  const auto cores = [&cluster](std::int64_t a, std::int64_t b) {
    return std::ranges::count_if(route(cluster, 8 * a, 8 * b).hops, [](const Hop& hop) {
      return hop.link.find("core") != std::string::npos;
    });
  };
  EXPECT_EQ(cores(36, 60), 0);
  EXPECT_GT(cores(34, 60), 0);
  // The leaf of two nodes has their share of links up: 2 x 400 GB/s over two spines.
  const Route far = route(cluster, 8 * 73, 0);
  const auto up = std::ranges::find_if(
      far.hops, [](const Hop& hop) { return hop.link.starts_with("leaf 5 -> spine"); });
  ASSERT_NE(up, far.hops.end());
  EXPECT_DOUBLE_EQ(up->bandwidth.value, 400e9);
}

}  // namespace
}  // namespace trireme::topologies
