#include "topologies/cluster_graph.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "topologies/network_tiers.h"
#include "topologies/node_groups.h"
#include "topologies/node_layout.h"
#include "topologies/node_parts.h"

namespace trireme::topologies {
namespace {

// Latencies of in-node hops, of the class that measured copies suggest.
constexpr Seconds kPcieHop(0.4e-6);
constexpr Seconds kHostBridgeHop(0.8e-6);
constexpr Seconds kSocketHop(1.0e-6);

class Builder {
 public:
  std::size_t add(DeviceKind kind, std::int64_t node, std::int64_t index) {
    graph_.devices.push_back({kind, node, index});
    return graph_.devices.size() - 1;
  }
  void connect(std::size_t a, std::size_t b, BytesPerSecond bandwidth, Seconds latency) {
    graph_.links.push_back({a, b, bandwidth, latency});
    graph_.links.push_back({b, a, bandwidth, latency});
  }
  DeviceGraph take() { return std::move(graph_); }

 private:
  DeviceGraph graph_;
};

struct NodeDevices {
  std::vector<std::size_t> gpus;
  std::vector<std::size_t> nics;
};

void connect_fast_fabric(Builder& builder, const Node& node, const LinkCounts& links,
                         std::int64_t node_index, const std::vector<std::size_t>& gpus) {
  if (!links.empty()) {
    // A mesh shares a GPU's links evenly among its peers.
    const bool even = !node.layout && node.fabric != Node::Fabric::kCubeMesh;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      for (std::size_t j = i + 1; j < gpus.size(); ++j) {
        if (links[i][j] > 0) {
          const double share = even ? 1.0 / std::max(1, node.nvlink_domain - 1)
                                    : static_cast<double>(links[i][j]) / node.nvlink_links;
          builder.connect(gpus[i], gpus[j], node.nvlink_per_gpu * share, node.nvlink_latency);
        }
      }
    }
    return;
  }
  if (node.fabric != Node::Fabric::kNvSwitch) {
    return;
  }
  const auto domain = static_cast<std::size_t>(std::max(1, node.nvlink_domain));
  for (std::size_t first = 0; first < gpus.size(); first += domain) {
    const std::size_t nvswitch =
        builder.add(DeviceKind::kNvSwitch, node_index, static_cast<std::int64_t>(first / domain));
    for (std::size_t i = first; i < std::min(gpus.size(), first + domain); ++i) {
      builder.connect(gpus[i], nvswitch, node.nvlink_per_gpu, 0.5 * node.nvlink_latency);
    }
  }
}

// The PCIe side of a node: sockets, which all reach each other, and switches below them. Switches
// below one root port meet in one more switch.
class PcieTree {
 public:
  PcieTree(Builder& builder, const Node& node, const NodeLayout& layout, std::int64_t node_index)
      : builder_(builder), node_(node), node_index_(node_index) {
    std::map<int, std::set<int>> leaves_of_tree;
    for (const std::vector<Place>* places : {&layout.gpus, &layout.nics}) {
      for (const Place& place : *places) {
        sockets_ = std::max(sockets_, place.socket + 1);
        leaves_of_tree[place.tree].insert(place.leaf);
      }
    }
    for (const auto& [tree, leaves] : leaves_of_tree) {
      if (leaves.size() > 1) {
        shared_trees_.insert(tree);
      }
    }
    sockets_ = std::max(sockets_, node.layout ? 1 : node.sockets);
    for (int i = 0; i < sockets_; ++i) {
      cpus_.push_back(builder.add(DeviceKind::kCpu, node_index, i));
      for (int j = 0; j < i; ++j) {
        builder.connect(cpus_[static_cast<std::size_t>(j)], cpus_.back(), node.socket_link,
                        kSocketHop);
      }
    }
  }
  [[nodiscard]] std::size_t cpu(const Place& place) const {
    return cpus_[static_cast<std::size_t>(place.socket)];
  }
  std::size_t leaf(const Place& place) {
    const auto [found, fresh] = leaves_.emplace(place.leaf, 0);
    if (fresh) {
      found->second = add_switch();
      const bool shared = shared_trees_.contains(place.tree);
      builder_.connect(found->second, shared ? tree(place) : cpu(place),
                       pcie_carries(node_.pcie_per_gpu), shared ? kPcieHop : kHostBridgeHop);
    }
    return found->second;
  }

 private:
  std::size_t add_switch() {
    return builder_.add(DeviceKind::kPcieSwitch, node_index_, switches_++);
  }
  std::size_t tree(const Place& place) {
    const auto [found, fresh] = trees_.emplace(place.tree, 0);
    if (fresh) {
      found->second = add_switch();
      builder_.connect(found->second, cpu(place), pcie_carries(node_.pcie_per_gpu), kHostBridgeHop);
    }
    return found->second;
  }

  Builder& builder_;
  const Node& node_;
  std::int64_t node_index_;
  int sockets_ = 1, switches_ = 0;
  std::vector<std::size_t> cpus_;
  std::set<int> shared_trees_;
  std::map<int, std::size_t> leaves_, trees_;
};

NodeDevices add_node(Builder& builder, const Cluster& cluster, std::int64_t node_index) {
  const Node& node = node_at(cluster, node_index);
  const NodeLayout layout = layout_of(node);
  NodeDevices devices;
  PcieTree tree(builder, node, layout, node_index);
  for (const Place& place : layout.gpus) {
    tree.leaf(place);
  }
  for (std::size_t i = 0; i < layout.gpus.size(); ++i) {
    const Place& place = layout.gpus[i];
    devices.gpus.push_back(builder.add(DeviceKind::kGpu, node_index, static_cast<std::int64_t>(i)));
    // Without peer to peer a message goes through host memory, even below one switch.
    builder.connect(devices.gpus.back(), node.peer_to_peer ? tree.leaf(place) : tree.cpu(place),
                    pcie_carries(gpu_pcie(node, static_cast<int>(i))), kPcieHop);
  }
  for (std::size_t i = 0; i < layout.nics.size(); ++i) {
    const Place& place = layout.nics[i];
    devices.nics.push_back(builder.add(DeviceKind::kNic, node_index, static_cast<std::int64_t>(i)));
    builder.connect(devices.nics.back(), tree.leaf(place), adapter_rate(node, static_cast<int>(i)),
                    kPcieHop);
  }
  connect_fast_fabric(builder, node, layout.links, node_index, devices.gpus);
  return devices;
}

}  // namespace

std::string device_name(const Device& device) {
  constexpr std::array<std::string_view, 8> kNames = {"GPU", "NVSwitch", "PCIe switch ", "CPU",
                                                      "NIC", "leaf ",    "spine ",       "core "};
  std::string name(kNames[static_cast<std::size_t>(device.kind)]);
  name += std::to_string(device.index);
  return device.node > 0 ? name + " of node " + std::to_string(device.node) : name;
}

namespace {

// Parts of a network that lie side by side: `listed` nodes of each, then `usual` of each beyond.
std::int64_t part_at(const std::vector<int>& listed, std::int64_t usual, std::int64_t node) {
  std::int64_t part = 0;
  for (const int nodes : listed) {
    if (node < nodes) {
      return part;
    }
    node -= nodes;
    ++part;
  }
  return part + node / std::max<std::int64_t>(1, usual);
}

std::int64_t size_of_part(const std::vector<int>& listed, std::int64_t usual, std::int64_t part) {
  return part < static_cast<std::int64_t>(listed.size()) ? listed[static_cast<std::size_t>(part)]
                                                         : std::max<std::int64_t>(1, usual);
}

std::int64_t first_of_part(const std::vector<int>& listed, std::int64_t usual, std::int64_t part) {
  std::int64_t first = 0;
  for (const int nodes : listed) {
    if (part == 0) {
      return first;
    }
    first += nodes;
    --part;
  }
  return first + part * std::max<std::int64_t>(1, usual);
}

std::int64_t least_of(const std::vector<int>& listed, std::int64_t usual) {
  const auto least = std::ranges::min_element(listed);
  return std::max<std::int64_t>(1, least == listed.end() ? usual : *least);
}

}  // namespace

std::int64_t unit_of_node(const Network& network, std::int64_t node) {
  return part_at(network.unit_nodes, network.nodes_per_unit, node);
}

std::int64_t unit_size(const Network& network, std::int64_t unit) {
  return size_of_part(network.unit_nodes, network.nodes_per_unit, unit);
}

std::int64_t unit_count(const Cluster& cluster) {
  return unit_of_node(cluster.network, std::max<std::int64_t>(cluster.nodes, 1) - 1) + 1;
}

std::int64_t least_unit(const Network& network) {
  return least_of(network.unit_nodes, network.nodes_per_unit);
}

std::int64_t part_of_node(const NetworkLevel& level, std::int64_t node) {
  return part_at(level.part_nodes, level.nodes, node);
}

std::int64_t part_size(const NetworkLevel& level, std::int64_t part) {
  return size_of_part(level.part_nodes, level.nodes, part);
}

std::int64_t least_part(const NetworkLevel& level) {
  return least_of(level.part_nodes, level.nodes);
}

bool has_several(const Cluster& cluster, const NetworkLevel& level) {
  return part_of_node(level, std::max<std::int64_t>(cluster.nodes, 1) - 1) > 0;
}

FabricShape fabric_shape(const Cluster& cluster) {
  const Network& network = cluster.network;
  FabricShape shape;
  const int per_unit = std::max(1, network.nodes_per_unit);
  shape.units = unit_count(cluster);
  const bool rails = network.kind == Network::Kind::kRailOptimised && cluster.node.nics > 0;
  shape.leaves_per_unit = rails ? cluster.node.nics : 1;
  if (shape.units > 1) {
    shape.spines = std::max(1, per_unit / 8);
    const double down =
        cluster.node.nic.value * cluster.node.nics * per_unit / shape.leaves_per_unit;
    shape.leaf_to_spine = BytesPerSecond(down / network.oversubscription / shape.spines);
  }
  return shape;
}

DeviceGraph node_graph(const Cluster& cluster, std::int64_t node) {
  Builder builder;
  add_node(builder, cluster, node);
  return builder.take();
}

namespace {

// Both nodes below their leaves; a torus has a router a node in place of leaves.
class PairBuilder {
 public:
  PairBuilder(const Cluster& cluster, std::int64_t from, std::int64_t to)
      : cluster_(cluster), shape_(fabric_shape(cluster)), nodes_({from, to}) {
    const bool torus = cluster.network.kind == Network::Kind::kTorus;
    for (std::size_t side = 0; side < 2; ++side) {
      units_[side] = torus ? nodes_[side] : unit_of_node(cluster.network, nodes_[side]);
    }
    same_unit_ = units_[0] == units_[1];
    for (std::size_t side = 0; side < 2; ++side) {
      add_side(side);
    }
  }

  DeviceGraph take(int spine) {
    const Network& network = cluster_.network;
    if (network.kind == Network::Kind::kTorus) {
      builder_.connect(
          leaves_[0][0], leaves_[1][0], cluster_.node.nic,
          network.switch_latency * static_cast<double>(torus_hops(network, nodes_[0], nodes_[1])));
    } else if (network.kind == Network::Kind::kDragonfly && !same_unit_ &&
               levels_between().empty()) {
      // The one link of the two groups.
      const double others = static_cast<double>(std::max<std::int64_t>(1, shape_.units - 1));
      builder_.connect(leaves_[0][0], leaves_[1][0],
                       std::min(unit_rate(0), unit_rate(1)) * (1.0 / others),
                       network.switch_latency);
    } else {
      connect_leaves(spine);
    }
    return builder_.take();
  }

 private:
  void add_side(std::size_t side) {
    for (int i = 0; i < shape_.leaves_per_unit; ++i) {
      leaves_[side].push_back(
          side == 1 && same_unit_
              ? leaves_[0][static_cast<std::size_t>(i)]
              : builder_.add(DeviceKind::kLeaf, -1, units_[side] * shape_.leaves_per_unit + i));
    }
    const NodeDevices devices = add_node(builder_, cluster_, nodes_[side]);
    for (std::size_t i = 0; i < devices.nics.size(); ++i) {
      const Node& node = node_at(cluster_, nodes_[side]);
      builder_.connect(devices.nics[i], leaves_[side][i % leaves_[side].size()], node.nic,
                       node.nic_latency + 0.5 * cluster_.network.switch_latency);
    }
  }

  // What leaves the unit of one of the nodes, one direction; of the only one there is, what its
  // leaves have for a spine.
  [[nodiscard]] BytesPerSecond unit_rate(std::size_t side) const {
    const Network& network = cluster_.network;
    const std::int64_t unit = unit_of_node(network, nodes_[side]);
    if (shape_.units > 1) {
      return uplinks_from(cluster_, 0,
                          first_of_part(network.unit_nodes, network.nodes_per_unit, unit));
    }
    return cluster_.node.nic *
           (static_cast<double>(cluster_.node.nics) *
            static_cast<double>(unit_size(network, unit)) / network.oversubscription);
  }

  // Within a unit rails meet in the spine only when GPUs cannot change rail over NVLink.
  void connect_leaves(int spine) {
    const std::vector<NetworkLevel> levels = levels_between();
    const bool changes_rail = cluster_.node.nvlink_domain > 1;
    if (same_unit_ && levels.empty() && (shape_.leaves_per_unit == 1 || changes_rail)) {
      return;
    }
    std::array<std::size_t, 2> tops = {};
    for (std::size_t side = 0; side < (same_unit_ ? 1U : 2U); ++side) {
      const bool own = side == 0 || !levels.empty();
      tops[side] = own ? builder_.add(DeviceKind::kSpine, -1, spine) : tops[0];
      const BytesPerSecond rate(unit_rate(side).value / shape_.leaves_per_unit /
                                std::max(1, shape_.spines));
      for (const std::size_t leaf : leaves_[side]) {
        builder_.connect(leaf, tops[side], rate, cluster_.network.switch_latency);
      }
    }
    for (std::size_t l = 0; l < levels.size(); ++l) {
      const bool last = l + 1 == levels.size();
      std::array<std::size_t, 2> cores = {};
      for (std::size_t side = 0; side < 2; ++side) {
        const std::int64_t part = part_of_node(levels[l], nodes_[side]);
        cores[side] =
            last && side == 1 ? cores[0] : builder_.add(DeviceKind::kCore, -1, last ? 0 : part);
        const double share =
            static_cast<double>(part_size(levels[l], part)) / static_cast<double>(levels[l].nodes);
        builder_.connect(tops[side], cores[side], out_of(cluster_, levels[l]) * share,
                         0.5 * levels[l].latency);
      }
      tops = cores;
    }
  }

  // Levels of the network that the two nodes are in different parts of.
  [[nodiscard]] std::vector<NetworkLevel> levels_between() const {
    std::vector<NetworkLevel> levels;
    std::ranges::copy_if(cluster_.network.levels, std::back_inserter(levels),
                         [this](const NetworkLevel& level) {
                           return part_of_node(level, nodes_[0]) != part_of_node(level, nodes_[1]);
                         });
    return levels;
  }

  const Cluster& cluster_;
  FabricShape shape_;
  std::array<std::int64_t, 2> nodes_;
  std::array<std::int64_t, 2> units_ = {};
  bool same_unit_ = true;
  Builder builder_;
  std::array<std::vector<std::size_t>, 2> leaves_;
};

}  // namespace

DeviceGraph pair_graph(const Cluster& cluster, std::int64_t from_node, std::int64_t to_node,
                       int spine) {
  return PairBuilder(cluster, from_node, to_node).take(spine);
}

}  // namespace trireme::topologies
