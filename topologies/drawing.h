// What was understood of a machine, drawn: a node as text, a cluster for Graphviz.
#pragma once

#include <cstdint>
#include <string>

#include "topologies/cluster.h"

namespace trireme::topologies {

// Sockets, the switches below them, GPUs with their ranks and NICs, a line a switch; then what
// joins the GPUs.
std::string node_drawing(const Cluster& cluster, std::int64_t node);
// Devices and links of the first node and of one in another part of the network, or of the one node
// there is: bandwidth at each link, ranks at the GPUs.
std::string dot_text(const Cluster& cluster);

}  // namespace trireme::topologies
