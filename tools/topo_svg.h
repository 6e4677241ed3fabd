// A cluster as drawings: what hangs where in a node, with ranks coloured by the group that they are
// in, and the network above the nodes; what limits a ring over such groups stands out.
#pragma once

#include <cstdint>
#include <string>

#include "topologies/cluster.h"

namespace trireme::tools {

// Groups of `ranks` members, `stride` apart.
struct ShownGroups {
  std::string what;  // "a node", "one GPU of each node"
  std::int64_t ranks = 1, stride = 1;
};

// One node: sockets, PCIe switches with what the link out of them carries, GPUs with their ranks,
// adapters, and what joins the GPUs. Requires: the node is of the cluster.
std::string node_svg(const topologies::Cluster& cluster, std::int64_t node,
                     const ShownGroups& groups);
// Nodes below their leaves, and what is above; "" without a network. Links out of its parts stand
// out where they limit such groups.
std::string network_svg(const topologies::Cluster& cluster, const ShownGroups& groups);

}  // namespace trireme::tools
