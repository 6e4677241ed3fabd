#include "topologies/topology_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/quantity.h"
#include "topologies/file_fields.h"
#include "topologies/node_groups.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {
namespace {

constexpr NameTable<Precision, 6> kPrecisions = {{{"fp32", Precision::kFp32},
                                                  {"tf32", Precision::kTf32},
                                                  {"bf16", Precision::kBf16},
                                                  {"fp16", Precision::kFp16},
                                                  {"fp8", Precision::kFp8},
                                                  {"fp4", Precision::kFp4}}};
constexpr NameTable<Node::Fabric, 5> kFabrics = {{{"nvswitch", Node::Fabric::kNvSwitch},
                                                  {"mesh", Node::Fabric::kMesh},
                                                  {"pairs", Node::Fabric::kPairs},
                                                  {"cube_mesh", Node::Fabric::kCubeMesh},
                                                  {"pcie", Node::Fabric::kPcie}}};

std::map<Precision, FlopPerSecond> read_rates(JsonReader reader) {
  std::map<Precision, FlopPerSecond> rates;
  for (const auto& [name, precision] : kPrecisions) {
    const std::string key(name);
    if (reader.has(key)) {
      rates[precision] = reader.flop_rate(key);
    }
  }
  reader.finish();
  return rates;
}

}  // namespace

BytesPerSecond pcie_rate(int generation, int lanes) {
  const double x16 = generation >= 6 ? 121.0e9 : 15.75e9 * std::exp2(generation - 3);
  return BytesPerSecond(x16 * lanes / 16.0);
}

std::string precision_name(Precision precision) {
  return name_of(precision, kPrecisions);
}
std::string fabric_name(Node::Fabric fabric) {
  return name_of(fabric, kFabrics);
}

Gpu read_gpu(JsonReader& reader) {
  Gpu gpu;
  gpu.name = reader.text("name");
  if (reader.has("aliases")) {
    for (const auto& alias : reader.raw("aliases")) {
      if (!alias.is_string()) {
        reader.fail("aliases", "must be an array of strings");
      }
      gpu.aliases.push_back(alias.get<std::string>());
    }
  }
  gpu.arch = reader.text("arch");
  gpu.compute_capability = static_cast<int>(reader.integer("compute_capability", 30, 9999));
  gpu.peak_dense = read_rates(reader.object("peak_dense"));
  if (reader.has("sustained_matmul")) {
    gpu.sustained_matmul = read_rates(reader.object("sustained_matmul"));
  }
  gpu.memory = reader.bytes("memory");
  gpu.memory_bandwidth = positive_bandwidth(reader, "memory_bandwidth");
  gpu.l2 = reader.bytes("l2");
  gpu.multiprocessors = static_cast<int>(reader.integer("multiprocessors", 1, 100000));
  gpu.power_watts = parse_power_watts(reader.text("power"), reader.where("power"));
  gpu.full_power_watts = reader.has("full_power") ? parse_power_watts(reader.text("full_power"),
                                                                      reader.where("full_power"))
                                                  : gpu.power_watts;
  if (reader.has("nvlink")) {
    JsonReader nvlink = reader.object("nvlink");
    nvlink.integer("generation", 0, 99);
    gpu.nvlink_links = static_cast<int>(nvlink.integer("links", 1, 1000));
    gpu.nvlink_per_gpu = positive_bandwidth(nvlink, "per_gpu");
    nvlink.finish();
  }
  JsonReader pcie = reader.object("pcie");
  gpu.pcie_generation = static_cast<int>(pcie.integer("generation", 1, 9));
  gpu.pcie = pcie_rate(gpu.pcie_generation, static_cast<int>(pcie.integer("lanes", 1, 16)));
  pcie.finish();
  gpu.peer_to_peer = !reader.has("peer_to_peer") || reader.boolean("peer_to_peer");
  gpu.source = reader.text("source");
  reader.finish();
  return gpu;
}

Gpu find_or_read_gpu(const std::string& name_or_path, const std::string& where) {
  const bool path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  if (!path) {
    return find_gpu(name_or_path, where);
  }
  const nlohmann::json document = read_json_file(name_or_path);
  JsonReader reader(document, name_or_path);
  if (!reader.has("gpu")) {
    return read_gpu(reader);
  }
  if (reader.raw("gpu").is_object()) {
    JsonReader gpu = reader.object("gpu");
    return read_gpu(gpu);
  }
  return find_gpu(reader.text("gpu"), reader.where("gpu"));
}

namespace {

// Latencies when a file gives none: one NVLink hop through a switch, and one RDMA adapter
// (datasheet class values).
constexpr Seconds kNvlinkLatency(0.7e-6);
constexpr Seconds kNicLatency(0.7e-6);
// Between two sockets, when a file gives none: one xGMI or UPI bundle as NCCL books it for AMD
// hosts.
constexpr BytesPerSecond kSocketLink(16.0e9);

std::vector<Place> read_places(JsonReader& reader, const std::string& key, int count) {
  constexpr int kLabelMost = 4095;
  std::vector<Place> places;
  for (JsonReader& entry : reader.objects(key)) {
    const auto label = [&entry](const char* name) {
      return static_cast<int>(entry.integer(name, 0, kLabelMost));
    };
    Place place;
    place.socket = label("socket");
    place.bridge = label("host_bridge");
    place.tree = label("pcie_tree");
    place.leaf = label("pcie_switch");
    if (entry.has("rate")) {
      place.rate = positive_bandwidth(entry, "rate");
    }
    entry.finish();
    places.push_back(place);
  }
  if (static_cast<int>(places.size()) != count) {
    reader.fail(key, "has " + std::to_string(places.size()) + " entries; the node has " +
                         std::to_string(count));
  }
  return places;
}

LinkCounts read_link_counts(JsonReader& reader, int gpus) {
  const auto count = static_cast<std::size_t>(gpus);
  const nlohmann::json& rows = reader.raw("links");
  if (!rows.is_array() || rows.size() != count) {
    reader.fail("links",
                "must have a row for each of the node's " + std::to_string(gpus) + " GPUs");
  }
  LinkCounts links;
  for (const nlohmann::json& row : rows) {
    std::vector<int> counts;
    for (const nlohmann::json& entry : row) {
      if (!entry.is_number_integer() || entry < 0 || entry > 1000) {
        reader.fail("links", "must hold whole numbers from 0 to 1000");
      }
      counts.push_back(entry.get<int>());
    }
    if (counts.size() != count) {
      reader.fail("links", "must have as many columns as rows");
    }
    links.push_back(std::move(counts));
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      if (links[a][b] != links[b][a] || (a == b && links[a][b] != 0)) {
        reader.fail("links", "must be the same both ways, and 0 from a GPU to itself");
      }
    }
  }
  return links;
}

std::shared_ptr<const NodeLayout> read_layout(JsonReader reader, const Node& node) {
  if (node.gpus > kLayoutGpusMost) {
    reader.fail("gpus", "can be laid out one by one for at most " +
                            std::to_string(kLayoutGpusMost) + " GPUs a node");
  }
  std::vector<Place> gpus = read_places(reader, "gpus", node.gpus);
  std::vector<Place> nics;
  if (node.nics > 0) {
    nics = read_places(reader, "nics", node.nics);
  }
  LinkCounts links = reader.has("links") ? read_link_counts(reader, node.gpus) : LinkCounts{};
  reader.finish();
  return make_layout(std::move(gpus), std::move(nics), std::move(links));
}

Node read_node(JsonReader& reader, const Gpu& gpu) {
  Node node;
  node.name = reader.has("name") ? reader.text("name") : "";
  node.gpus = static_cast<int>(reader.integer("gpus", 1, 1024));
  node.fabric = parse_name(reader, "fabric", kFabrics);
  const bool linked = node.fabric != Node::Fabric::kPcie;
  const int usual_domain =
      !linked ? 1 : (node.fabric == Node::Fabric::kPairs ? std::min(2, node.gpus) : node.gpus);
  node.nvlink_domain = reader.has("nvlink_domain")
                           ? static_cast<int>(reader.integer("nvlink_domain", 1, node.gpus))
                           : usual_domain;
  node.nvlink_links = linked ? gpu.nvlink_links : 0;
  node.nvlink_per_gpu = linked ? gpu.nvlink_per_gpu : BytesPerSecond(0.0);
  if (reader.has("nvlink_links")) {
    node.nvlink_links = static_cast<int>(reader.integer("nvlink_links", 0, 1000));
  }
  if (reader.has("nvlink_per_gpu")) {
    node.nvlink_per_gpu = reader.bandwidth("nvlink_per_gpu");
  }
  if (linked && (node.nvlink_per_gpu.value <= 0.0 || node.nvlink_links == 0)) {
    reader.fail("fabric", "is '" + fabric_name(node.fabric) + "', but " + gpu.name +
                              " has no NVLink; give nvlink_links and nvlink_per_gpu, or use pcie");
  }
  node.nvlink_latency =
      reader.has("nvlink_latency") ? reader.duration("nvlink_latency") : kNvlinkLatency;
  node.pcie_per_gpu =
      reader.has("pcie_per_gpu") ? positive_bandwidth(reader, "pcie_per_gpu") : gpu.pcie;
  node.socket_link =
      reader.has("socket_link") ? positive_bandwidth(reader, "socket_link") : kSocketLink;
  node.peer_to_peer =
      reader.has("peer_to_peer") ? reader.boolean("peer_to_peer") : gpu.peer_to_peer;
  node.sockets = reader.has("sockets") ? static_cast<int>(reader.integer("sockets", 1, 1024)) : 2;
  node.gpus_per_pcie_switch =
      reader.has("gpus_per_pcie_switch")
          ? static_cast<int>(reader.integer("gpus_per_pcie_switch", 1, 1024))
          : 2;
  node.cpu = reader.has("cpu") ? reader.text("cpu") : "intel";
  if (node.cpu != "intel" && node.cpu != "amd" && node.cpu != "arm") {
    reader.fail("cpu", "is '" + node.cpu + "'; use one of intel, amd, arm");
  }
  node.nics = static_cast<int>(reader.integer("nics", 0, 4096));
  if (node.nics > 0) {
    node.nic = positive_bandwidth(reader, "nic");
    node.nic_latency = reader.has("nic_latency") ? reader.duration("nic_latency") : kNicLatency;
  }
  if (reader.has("host_memory")) {
    node.host_memory = reader.bytes("host_memory");
    if (node.host_memory.value <= 0) {
      reader.fail("host_memory", "must be more than 0");
    }
  }
  if (reader.has("layout")) {
    node.layout = read_layout(reader.object("layout"), node);
  }
  reader.finish();
  return node;
}

const Network& named_network(JsonReader& reader, const std::vector<Network>& networks) {
  const std::string name = reader.text("network");
  const auto found = std::ranges::find(networks, name, &Network::name);
  if (found == networks.end()) {
    std::string known;
    for (const Network& network : networks) {
      known += (known.empty() ? "" : ", ") + network.name;
    }
    reader.fail("network", "is '" + name + "'; describe it as an object or use one of " + known);
  }
  return *found;
}

// `gpu`, `node` and `nodes` of a cluster, or of one of its groups.
NodeGroup read_node_group(JsonReader& reader, const std::string& name) {
  NodeGroup group;
  if (reader.raw("gpu").is_object()) {
    JsonReader gpu = reader.object("gpu");
    group.gpu = read_gpu(gpu);
  } else {
    group.gpu = find_gpu(reader.text("gpu"), reader.where("gpu"));
  }
  JsonReader node = reader.object("node");
  group.node = read_node(node, group.gpu);
  if (group.node.name.empty()) {
    group.node.name = name;
  }
  group.nodes = reader.has("nodes") ? reader.integer("nodes", 1, kNodesMost) : 1;
  return group;
}

std::vector<NodeGroup> read_node_groups(JsonReader& reader, const std::string& name) {
  std::vector<NodeGroup> groups;
  for (const char* key : {"gpu", "node", "nodes"}) {
    if (reader.has(key)) {
      reader.fail(key, "stands beside 'groups'; each group says its own");
    }
  }
  for (JsonReader& entry : reader.objects("groups")) {
    groups.push_back(read_node_group(entry, name));
    entry.finish();
  }
  if (groups.empty() || groups.size() > kNodeGroupsMost) {
    reader.fail("groups", "has " + std::to_string(groups.size()) + " entries; 1 to " +
                              std::to_string(kNodeGroupsMost) + " are possible");
  }
  return groups;
}

}  // namespace

Cluster read_cluster(JsonReader& reader, const std::vector<Network>& networks) {
  Cluster cluster;
  cluster.name = reader.text("name");
  const bool unlike = reader.has("groups");
  set_groups(cluster, unlike ? read_node_groups(reader, cluster.name)
                             : std::vector{read_node_group(reader, cluster.name)});
  if (cluster.nodes == 1 && !reader.has("network")) {
    cluster.network.name = "none";
    cluster.network.kind = Network::Kind::kNone;
  } else if (reader.raw("network").is_object()) {
    JsonReader network = reader.object("network");
    cluster.network = read_network(network);
  } else {
    cluster.network = named_network(reader, networks);
  }
  if (cluster.nodes > 1 &&
      (cluster.node.nics == 0 || cluster.network.kind == Network::Kind::kNone)) {
    reader.fail(unlike ? "groups" : "nodes",
                unlike ? "are of more than one node, but not all have a network: give each nics, "
                         "and the cluster a network"
                       : "is more than 1, but the nodes have no network: give nics and a network");
  }
  std::int64_t places = 1;
  for (const int size : cluster.network.torus) {
    places = std::min<std::int64_t>(places * size, kNodesMost);
  }
  if (!cluster.network.torus.empty() && places != cluster.nodes) {
    reader.fail(unlike ? "groups" : "nodes", "are " + std::to_string(cluster.nodes) +
                                                 ", but the torus has places for " +
                                                 std::to_string(places));
  }
  if (reader.has("nccl")) {
    JsonReader settings = reader.object("nccl");
    for (const auto& item : reader.raw("nccl").items()) {
      apply_nccl_setting(cluster.nccl, item.key(), settings.text(item.key()),
                         settings.where(item.key()));
    }
    settings.finish();
  }
  reader.ignore("format");
  reader.ignore("source");
  reader.finish();
  return cluster;
}

}  // namespace trireme::topologies
