// Every key of a topology file has an effect: changing it changes some answer.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/json_reader.h"
#include "topologies/collective_cost.h"
#include "topologies/op_cost.h"
#include "topologies/routes.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

using Json = nlohmann::json;

Cluster read(const Json& json) {
  JsonReader reader(json, "keys");
  return read_cluster(reader, network_presets());
}

// What the commands say of a cluster: routes, and every collective at a small and a large size,
// over all GPUs and over one node.
std::vector<double> answers(const Cluster& cluster) {
  std::vector<double> all = {static_cast<double>(cluster.gpus)};
  for (std::int64_t to = 1; to < cluster.gpus; to += 3) {
    const Route found = route(cluster, 0, to);
    all.insert(all.end(), {found.bottleneck.value, found.latency.value});
  }
  for (const Collective op :
       {Collective::kAllReduce, Collective::kAllToAll, Collective::kSendRecv}) {
    for (const std::int64_t bytes : {8LL, 1LL << 30}) {
      for (const std::int64_t ranks :
           {cluster.gpus, std::int64_t{cluster.node.gpus}, std::int64_t{2}}) {
        all.push_back(collective_time(cluster, shipped_profile(), op,
                                      group_shape(cluster, ranks, 1), Bytes(bytes))
                          .time.value);
      }
    }
  }
  return all;
}

Json switched() {
  return Json::parse(
      R"({"format": "trireme.topology/1", "name": "c", "gpu": "H100-SXM5-80GB", "nodes": 8,
    "node": {"gpus": 8, "fabric": "nvswitch", "nvlink_domain": 8, "nvlink_links": 18, "cpu": "intel",
             "nvlink_per_gpu": "450 GB/s", "nvlink_latency": "0.7 us", "pcie_per_gpu": "63 GB/s",
             "socket_link": "22 GB/s", "peer_to_peer": true, "sockets": 2, "gpus_per_pcie_switch": 1,
             "nics": 8, "nic": "400 Gbit/s", "nic_latency": "0.7 us"},
    "network": {"name": "NDR InfiniBand", "kind": "rail_optimised", "nodes_per_unit": 4,
                "oversubscription": 2, "switch_latency": "0.2 us"}})");
}

Json on_pcie() {
  Json json = switched();
  json["gpu"] = "A100-PCIe-80GB";
  json["node"]["fabric"] = "pcie";
  json["node"]["nvlink_domain"] = 1;
  json["node"]["nvlink_links"] = 0;
  json["node"]["pcie_per_gpu"] = "31.5 GB/s";
  json["node"]["socket_link"] = "10 GB/s";
  return json;
}

bool changes(const Json& base, const std::string& pointer, const Json& value) {
  Json other = base;
  other[Json::json_pointer(pointer)] = value;
  return answers(read(base)) != answers(read(other));
}

TEST(TopologyKeys, EachChangesSomeAnswer) {
  const std::vector<std::pair<std::string, Json>> everywhere = {
      {"/nodes", 7},
      {"/node/gpus", 4},
      {"/node/pcie_per_gpu", "8 GB/s"},
      {"/node/nics", 4},
      {"/node/nic", "100 Gbit/s"},
      {"/node/nic_latency", "500 us"},
      {"/node/cpu", "amd"},
      {"/node/sockets", 1},
      {"/network/name", "EFA v2"},
      {"/network/kind", "fat_tree"},
      {"/network/nodes_per_unit", 2},
      {"/network/unit_nodes", {1, 7}},
      {"/network/oversubscription", 8},
      {"/network/switch_latency", "50 us"},
      {"/nccl", {{"NCCL_ALGO", "Tree"}}},
      {"/nccl", {{"NCCL_PROTO", "Simple"}}},
      {"/nccl", {{"NCCL_MAX_NCHANNELS", "2"}}},
      {"/nccl", {{"NCCL_P2P_DISABLE", "1"}}},
      {"/nccl", {{"NCCL_NET_GDR_LEVEL", "LOC"}}}};
  for (const auto& [key, value] : everywhere) {
    // Eight GPUs are in the domain of the switched node.
    const bool on_switches = key != "/node/gpus" && changes(switched(), key, value);
    EXPECT_TRUE(on_switches || changes(on_pcie(), key, value)) << key;
  }
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"/node/nvlink_latency", "50 us"},
                                                 {"/node/nvlink_per_gpu", "100 GB/s"},
                                                 {"/node/nvlink_domain", 4},
                                                 {"/node/fabric", "mesh"},
                                                 {"/node/gpus_per_pcie_switch", 4}}) {
    EXPECT_TRUE(changes(switched(), key, value)) << key;
  }
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"/node/socket_link", "2 GB/s"},
                                                 {"/node/peer_to_peer", false},
                                                 {"/node/gpus_per_pcie_switch", 4},
                                                 {"/nccl", {{"NCCL_CROSS_NIC", "0"}}}}) {
    EXPECT_TRUE(changes(on_pcie(), key, value)) << key;
  }
}

TEST(TopologyKeys, ThePlacesOfALayoutCount) {
  Json json = on_pcie();
  json["nodes"] = 2;
  json["node"]["gpus"] = 2;
  json["node"]["nics"] = 1;
  const auto place = [](int socket, int leaf) {
    return Json{
        {"socket", socket}, {"host_bridge", leaf}, {"pcie_tree", leaf}, {"pcie_switch", leaf}};
  };
  json["node"]["layout"] = {{"gpus", {place(0, 0), place(0, 0)}}, {"nics", {place(0, 0)}}};
  EXPECT_TRUE(changes(json, "/node/layout/gpus/1", place(1, 1)));
  // An adapter on the other socket is read through host memory.
  EXPECT_TRUE(changes(json, "/node/layout/nics/0", place(1, 1)));
  // A device's own PCIe link.
  EXPECT_TRUE(changes(json, "/node/layout/gpus/1/rate", "2 GB/s"));
  EXPECT_TRUE(changes(json, "/node/layout/nics/0/rate", "2 GB/s"));
}

TEST(TopologyKeys, TheLinksOfALayoutCount) {
  Json json = switched();
  json["nodes"] = 2;
  json["node"]["fabric"] = "mesh";
  json["node"]["gpus"] = json["node"]["nvlink_domain"] = 3;
  json["node"]["nics"] = 1;
  json["node"]["nvlink_links"] = 4;
  json["node"]["layout"] = Json::parse(R"({"links": [[0, 2, 2], [2, 0, 2], [2, 2, 0]],
    "gpus": [{"socket": 0, "host_bridge": 0, "pcie_tree": 0, "pcie_switch": 0},
             {"socket": 0, "host_bridge": 0, "pcie_tree": 0, "pcie_switch": 0},
             {"socket": 0, "host_bridge": 0, "pcie_tree": 0, "pcie_switch": 0}],
    "nics": [{"socket": 0, "host_bridge": 0, "pcie_tree": 0, "pcie_switch": 0}]})");
  EXPECT_TRUE(changes(json, "/node/layout/links", {{0, 2, 1}, {2, 0, 2}, {1, 2, 0}}));
  EXPECT_TRUE(changes(json, "/node/nvlink_links", 8));
}

TEST(TopologyKeys, EachGroupOfNodesCounts) {
  Json json = switched();
  const Json group = {{"gpu", json["gpu"]}, {"node", json["node"]}, {"nodes", 4}};
  for (const char* own : {"gpu", "node", "nodes"}) {
    json.erase(own);
  }
  json["groups"] = {group, group};
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"/groups/1/nodes", 5},
                                                 {"/groups/1/node/nic", "100 Gbit/s"},
                                                 {"/groups/1/gpu", "A100"}}) {
    EXPECT_TRUE(changes(json, key, value)) << key;
  }
}

// Times of the card's own work, where the collectives' do not tell. `power` and `memory` have their
// effect in `budget` and `fit`; `name`, `arch`, `l2`, `aliases`, `source` and the generation of the
// links describe.
TEST(TopologyKeys, EachOfACardCounts) {
  Json json = switched();
  json["gpu"] = Json::parse(R"({"name": "card", "arch": "Hopper", "compute_capability": 90,
    "peak_dense": {"fp32": "67 TFLOP/s", "bf16": "989 TFLOP/s", "fp16": "980 TFLOP/s", "fp8": "1979 TFLOP/s"},
    "memory": "80 GiB", "memory_bandwidth": "3350 GB/s", "l2": "50 MiB", "multiprocessors": 132,
    "power": "700 W", "pcie": {"generation": 5, "lanes": 16},
    "nvlink": {"generation": 4, "links": 18, "per_gpu": "450 GB/s"}, "source": "test"})");
  for (const char* own : {"nvlink_per_gpu", "nvlink_links", "pcie_per_gpu"}) {
    json["node"].erase(own);
  }
  const auto work = [](const Json& file) {
    const Cluster cluster = read(file);
    const OpCost cost(cluster, shipped_profile());
    std::vector<double> all = answers(cluster);
    for (const Precision precision :
         {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
      all.push_back(cost.matmul({4096, 4096, 4096, 1}, precision).value);
    }
    all.push_back(
        cost.attention({1, 3, 3, 4096, 4096, 128, 128}, Precision::kBf16, Pass::kForward).value);
    all.push_back(cost.memory_bound(Bytes(1 << 30), 1).value);
    return all;
  };
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"compute_capability", 80},
           {"memory_bandwidth", "2000 GB/s"},
           {"multiprocessors", 66},
           {"sustained_matmul", {{"bf16", "500 TFLOP/s"}}},
           {"power", "350 W"},
           {"pcie", {{"generation", 3}, {"lanes", 16}}},
           {"pcie", {{"generation", 5}, {"lanes", 4}}},
           {"nvlink", {{"generation", 4}, {"links", 18}, {"per_gpu", "225 GB/s"}}}}) {
    Json other = json;
    other["gpu"][key] = value;
    EXPECT_NE(work(other), work(json)) << key;
  }
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    Json other = json;
    other["gpu"]["peak_dense"][precision] = "50 TFLOP/s";
    EXPECT_NE(work(other), work(json)) << precision;
  }
}

}  // namespace
}  // namespace trireme::topologies
