// The cluster as a graph of devices and links: one node of the (repeating) kind, or two nodes with
// the switches between them. Its size does not depend on the number of nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  std::int64_t node = -1;  // -1: a switch of the network
  std::int64_t index = 0;  // within its node; leaves and spines count through the cluster
};
std::string device_name(const Device& device);  // "GPU3", "NIC0 of node 7", "leaf 12"

// One direction.
struct Link {
  std::size_t from = 0;
  std::size_t to = 0;
  BytesPerSecond bandwidth;
  Seconds latency;
};

struct DeviceGraph {
  std::vector<Device> devices;
  std::vector<Link> links;
};

// Shape of the network: how many leaves and spines there are, and the capacity between them.
struct FabricShape {
  std::int64_t units = 1;
  int leaves_per_unit = 1;       // as many as rails, or 1
  int spines = 0;                // 0: one unit, no spine
  BytesPerSecond leaf_to_spine;  // of one leaf to one spine, one direction
};
FabricShape fabric_shape(const Cluster& cluster);

DeviceGraph node_graph(const Cluster& cluster, std::int64_t node);
// Both nodes, their leaves, and the one spine `spine` if they need it. The nodes differ.
DeviceGraph pair_graph(const Cluster& cluster, std::int64_t from_node, std::int64_t to_node,
                       int spine);

// The unit that a node belongs to, and how many nodes each unit has: the last one what is left.
std::int64_t unit_of_node(const Network& network, std::int64_t node);
std::int64_t unit_count(const Cluster& cluster);
std::int64_t unit_size(const Network& network, std::int64_t unit);
// Nodes of the smallest whole unit.
std::int64_t least_unit(const Network& network);
// The same of a level: the part of it that a node is below, and how many nodes a part has.
std::int64_t part_of_node(const NetworkLevel& level, std::int64_t node);
std::int64_t part_size(const NetworkLevel& level, std::int64_t part);
std::int64_t least_part(const NetworkLevel& level);
// Whether the cluster has more than one part of the level.
bool has_several(const Cluster& cluster, const NetworkLevel& level);

}  // namespace trireme::topologies
