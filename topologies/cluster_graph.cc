#include "topologies/cluster_graph.h"

#include <algorithm>
#include <array>
#include <string_view>

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

void connect_fast_fabric(Builder& builder, const Node& node, std::int64_t node_index,
                         const std::vector<std::size_t>& gpus) {
  const auto count = static_cast<int>(gpus.size());
  const auto at = [&gpus](int i) { return gpus[static_cast<std::size_t>(i)]; };
  switch (node.fabric) {
    case Node::Fabric::kNvSwitch:
      for (int first = 0; first < count; first += std::max(1, node.nvlink_domain)) {
        const std::size_t nvswitch =
            builder.add(DeviceKind::kNvSwitch, node_index, first / node.nvlink_domain);
        for (int i = first; i < std::min(count, first + node.nvlink_domain); ++i) {
          builder.connect(at(i), nvswitch, node.nvlink_per_gpu, 0.5 * node.nvlink_latency);
        }
      }
      return;
    case Node::Fabric::kMesh:
    case Node::Fabric::kPairs:
      for (int i = 0; i < count; ++i) {
        for (int j = i + 1; j < count; ++j) {
          if (i / node.nvlink_domain == j / node.nvlink_domain) {
            const double peers = node.nvlink_domain - 1;
            builder.connect(at(i), at(j), node.nvlink_per_gpu / peers, node.nvlink_latency);
          }
        }
      }
      return;
    case Node::Fabric::kCubeMesh:
      for (int i = 0; i < count; ++i) {
        for (int j = i + 1; j < count; ++j) {
          if (const int links = cube_mesh_links(i, j); links > 0) {
            builder.connect(at(i), at(j), node.nvlink_per_gpu * links / node.nvlink_links,
                            node.nvlink_latency);
          }
        }
      }
      return;
    case Node::Fabric::kPcie:
      return;
  }
}

NodeDevices add_node(Builder& builder, const Cluster& cluster, std::int64_t node_index) {
  const Node& node = cluster.node;
  NodeDevices devices;
  std::vector<std::size_t> cpus;
  for (int i = 0; i < std::max(1, node.sockets); ++i) {
    cpus.push_back(builder.add(DeviceKind::kCpu, node_index, i));
    if (i > 0) {
      builder.connect(cpus[static_cast<std::size_t>(i - 1)], cpus.back(), node.socket_link,
                      kSocketHop);
    }
  }
  const int per_switch = std::max(1, node.gpus_per_pcie_switch);
  const int switches = (node.gpus + per_switch - 1) / per_switch;
  const auto cpu_of_switch = [&](int s) {
    return cpus[static_cast<std::size_t>(s) * cpus.size() / static_cast<std::size_t>(switches)];
  };
  std::vector<std::size_t> pcie_switches;
  for (int s = 0; s < switches; ++s) {
    pcie_switches.push_back(builder.add(DeviceKind::kPcieSwitch, node_index, s));
    builder.connect(pcie_switches.back(), cpu_of_switch(s), node.pcie_per_gpu, kHostBridgeHop);
  }
  for (int i = 0; i < node.gpus; ++i) {
    devices.gpus.push_back(builder.add(DeviceKind::kGpu, node_index, i));
    // Without peer to peer a message goes through host memory, even below one switch.
    const std::size_t up = node.peer_to_peer
                               ? pcie_switches[static_cast<std::size_t>(i / per_switch)]
                               : cpu_of_switch(i / per_switch);
    builder.connect(devices.gpus.back(), up, node.pcie_per_gpu, kPcieHop);
  }
  for (int i = 0; i < node.nics; ++i) {
    devices.nics.push_back(builder.add(DeviceKind::kNic, node_index, i));
    const auto s = static_cast<std::size_t>(static_cast<std::int64_t>(i) * switches / node.nics);
    const BytesPerSecond rate = std::min(node.nic, node.pcie_per_gpu);
    builder.connect(devices.nics.back(), pcie_switches[s], rate, kPcieHop);
  }
  connect_fast_fabric(builder, node, node_index, devices.gpus);
  return devices;
}

}  // namespace

std::string device_name(const Device& device) {
  constexpr std::array<std::string_view, 7> kNames = {"GPU", "NVSwitch", "PCIe switch ", "CPU",
                                                      "NIC", "leaf ",    "spine "};
  std::string name(kNames[static_cast<std::size_t>(device.kind)]);
  name += std::to_string(device.index);
  return device.node > 0 ? name + " of node " + std::to_string(device.node) : name;
}

int cube_mesh_links(int a, int b) {
  // nvidia-smi topo -m of a DGX-1 V100.
  constexpr std::array<std::array<int, 8>, 8> kLinks = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                                         {1, 0, 2, 1, 0, 2, 0, 0},
                                                         {1, 2, 0, 2, 0, 0, 1, 0},
                                                         {2, 1, 2, 0, 0, 0, 0, 1},
                                                         {2, 0, 0, 0, 0, 1, 1, 2},
                                                         {0, 2, 0, 0, 1, 0, 2, 1},
                                                         {0, 0, 1, 0, 1, 2, 0, 2},
                                                         {0, 0, 0, 1, 2, 1, 2, 0}}};
  return kLinks[static_cast<std::size_t>(a % 8)][static_cast<std::size_t>(b % 8)];
}

FabricShape fabric_shape(const Cluster& cluster) {
  const Network& network = cluster.network;
  FabricShape shape;
  const int per_unit = std::max(1, network.nodes_per_unit);
  shape.units = (cluster.nodes + per_unit - 1) / per_unit;
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

DeviceGraph pair_graph(const Cluster& cluster, std::int64_t from_node, std::int64_t to_node,
                       int spine) {
  Builder builder;
  const FabricShape shape = fabric_shape(cluster);
  const std::int64_t per_unit = std::max(1, cluster.network.nodes_per_unit);
  const std::array<std::int64_t, 2> nodes = {from_node, to_node};
  const bool same_unit = from_node / per_unit == to_node / per_unit;
  std::array<std::vector<std::size_t>, 2> leaves;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::int64_t unit = nodes[side] / per_unit;
    for (int i = 0; i < shape.leaves_per_unit; ++i) {
      leaves[side].push_back(
          side == 1 && same_unit
              ? leaves[0][static_cast<std::size_t>(i)]
              : builder.add(DeviceKind::kLeaf, -1, unit * shape.leaves_per_unit + i));
    }
    const NodeDevices devices = add_node(builder, cluster, nodes[side]);
    for (std::size_t i = 0; i < devices.nics.size(); ++i) {
      builder.connect(devices.nics[i], leaves[side][i % leaves[side].size()], cluster.node.nic,
                      cluster.node.nic_latency + 0.5 * cluster.network.switch_latency);
    }
  }
  // Within a unit rails meet in the spine only when GPUs cannot change rail over NVLink.
  const bool changes_rail = cluster.node.nvlink_domain > 1;
  if (!same_unit || (shape.leaves_per_unit > 1 && !changes_rail)) {
    const std::size_t top = builder.add(DeviceKind::kSpine, -1, spine);
    const double unit_rate = cluster.node.nic.value * cluster.node.nics *
                             static_cast<double>(per_unit) / shape.leaves_per_unit /
                             cluster.network.oversubscription / std::max(1, shape.spines);
    for (std::size_t side = 0; side < (same_unit ? 1U : 2U); ++side) {
      for (const std::size_t leaf : leaves[side]) {
        builder.connect(leaf, top, BytesPerSecond(unit_rate), cluster.network.switch_latency);
      }
    }
  }
  return builder.take();
}

}  // namespace trireme::topologies
