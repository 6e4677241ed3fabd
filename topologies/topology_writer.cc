// Writes a cluster as a topology file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "topologies/node_groups.h"
#include "topologies/node_layout.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

// "450 GB/s" where that reads back as the same number, else the number of base units.
std::string with_unit(double value, double scale, const char* unit, const char* base_unit) {
  const std::string scaled = fmt::format("{}", value / scale);
  return std::stod(scaled) * scale == value ? scaled + " " + unit
                                            : fmt::format("{} {}", value, base_unit);
}

std::string text_of(BytesPerSecond rate) {
  return with_unit(rate.value, 1e9, "GB/s", "B/s");
}
std::string text_of(Seconds time) {
  return with_unit(time.value, 1e-6, "us", "s");
}
std::string text_of(FlopPerSecond rate) {
  return with_unit(rate.value, 1e12, "TFLOP/s", "GFLOP/s");
}
std::string text_of(Bytes size) {
  return with_unit(static_cast<double>(size.value), kGiB, "GiB", "B");
}

nlohmann::ordered_json rates_to_json(const std::map<Precision, FlopPerSecond>& rates) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [precision, rate] : rates) {
    json[precision_name(precision)] = text_of(rate);
  }
  return json;
}

nlohmann::ordered_json gpu_to_json(const Gpu& gpu) {
  nlohmann::ordered_json json = {{"name", gpu.name},
                                 {"arch", gpu.arch},
                                 {"compute_capability", gpu.compute_capability},
                                 {"peak_dense", rates_to_json(gpu.peak_dense)},
                                 {"memory", text_of(gpu.memory)},
                                 {"memory_bandwidth", text_of(gpu.memory_bandwidth)},
                                 {"l2", text_of(gpu.l2)},
                                 {"multiprocessors", gpu.multiprocessors},
                                 {"power", fmt::format("{} W", gpu.power_watts)},
                                 {"full_power", fmt::format("{} W", gpu.full_power_watts)}};
  if (!gpu.sustained_matmul.empty()) {
    json["sustained_matmul"] = rates_to_json(gpu.sustained_matmul);
  }
  if (gpu.nvlink_links > 0) {
    json["nvlink"] = {
        {"generation", 0}, {"links", gpu.nvlink_links}, {"per_gpu", text_of(gpu.nvlink_per_gpu)}};
  }
  const double lane = pcie_rate(gpu.pcie_generation, 1).value;
  json["pcie"] = {{"generation", gpu.pcie_generation},
                  {"lanes", std::clamp(std::lround(gpu.pcie.value / lane), 1L, 16L)}};
  if (!gpu.peer_to_peer) {
    json["peer_to_peer"] = false;
  }
  json["source"] = gpu.source;
  return json;
}

nlohmann::ordered_json places_to_json(const std::vector<Place>& places) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Place& place : places) {
    nlohmann::ordered_json json = {{"socket", place.socket},
                                   {"host_bridge", place.bridge},
                                   {"pcie_tree", place.tree},
                                   {"pcie_switch", place.leaf}};
    if (place.rate.value > 0.0) {
      json["rate"] = text_of(place.rate);
    }
    list.push_back(json);
  }
  return list;
}

nlohmann::ordered_json layout_to_json(const NodeLayout& layout) {
  nlohmann::ordered_json json = {{"gpus", places_to_json(layout.gpus)}};
  if (!layout.nics.empty()) {
    json["nics"] = places_to_json(layout.nics);
  }
  if (!layout.links.empty()) {
    json["links"] = layout.links;
  }
  return json;
}

nlohmann::ordered_json node_to_json(const Node& node) {
  nlohmann::ordered_json json = {{"name", node.name},
                                 {"gpus", node.gpus},
                                 {"fabric", fabric_name(node.fabric)},
                                 {"nvlink_domain", node.nvlink_domain},
                                 {"nvlink_links", node.nvlink_links},
                                 {"nvlink_per_gpu", text_of(node.nvlink_per_gpu)},
                                 {"nvlink_latency", text_of(node.nvlink_latency)},
                                 {"pcie_per_gpu", text_of(node.pcie_per_gpu)},
                                 {"socket_link", text_of(node.socket_link)},
                                 {"peer_to_peer", node.peer_to_peer},
                                 {"sockets", node.sockets},
                                 {"gpus_per_pcie_switch", node.gpus_per_pcie_switch},
                                 {"cpu", node.cpu},
                                 {"nics", node.nics}};
  if (node.nics > 0) {
    json["nic"] = text_of(node.nic);
    json["nic_latency"] = text_of(node.nic_latency);
  }
  if (node.host_memory.value > 0) {
    json["host_memory"] = text_of(node.host_memory);
  }
  if (node.layout) {
    json["layout"] = layout_to_json(*node.layout);
  }
  return json;
}

// Another card may go by a shipped one's name (`--gpu FILE`): only an equal one goes by name alone.
nlohmann::ordered_json card_to_json(const Gpu& card) {
  const bool shipped = std::ranges::any_of(gpu_presets(), [&](const Gpu& gpu) {
    return gpu.name == card.name && gpu_to_json(gpu) == gpu_to_json(card);
  });
  return shipped ? nlohmann::ordered_json(card.name) : gpu_to_json(card);
}

}  // namespace

nlohmann::ordered_json cluster_to_json(const Cluster& cluster) {
  nlohmann::ordered_json network = {{"name", cluster.network.name},
                                    {"kind", network_kind_name(cluster.network.kind)}};
  if (cluster.network.kind == Network::Kind::kTorus) {
    network["torus"] = cluster.network.torus;
    network["switch_latency"] = text_of(cluster.network.switch_latency);
  } else if (cluster.network.kind != Network::Kind::kNone) {
    network["nodes_per_unit"] = cluster.network.nodes_per_unit;
    if (!cluster.network.unit_nodes.empty()) {
      network["unit_nodes"] = cluster.network.unit_nodes;
    }
    network["oversubscription"] = cluster.network.oversubscription;
    network["switch_latency"] = text_of(cluster.network.switch_latency);
    for (const NetworkLevel& level : cluster.network.levels) {
      nlohmann::ordered_json entry = {{"name", level.name}, {"nodes", level.nodes}};
      if (!level.part_nodes.empty()) {
        entry["part_nodes"] = level.part_nodes;
      }
      if (level.out.value > 0.0) {
        entry["out"] = text_of(level.out);
      } else {
        entry["oversubscription"] = level.oversubscription;
      }
      entry["latency"] = text_of(level.latency);
      network["levels"].push_back(entry);
    }
  }
  nlohmann::ordered_json json = {{"format", "trireme.topology/1"}, {"name", cluster.name}};
  if (has_unlike_nodes(cluster)) {
    for (const NodeGroup& group : cluster.groups) {
      json["groups"].push_back({{"gpu", card_to_json(group.gpu)},
                                {"node", node_to_json(group.node)},
                                {"nodes", group.nodes}});
    }
  } else {
    json["gpu"] = card_to_json(cluster.gpu);
    json["node"] = node_to_json(cluster.node);
  }
  json["network"] = network;
  if (!has_unlike_nodes(cluster)) {
    json["nodes"] = cluster.nodes;
  }
  if (!cluster.nccl.said.empty()) {
    for (const auto& [name, value] : cluster.nccl.said) {
      json["nccl"][name] = value;
    }
  }
  return json;
}

}  // namespace trireme::topologies
