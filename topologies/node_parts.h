// What devices of one node share on their way over PCIe, read off the node's graph: whatever leaves
// a switch or a socket crosses the link out of it (of a socket: its links to the others, taken
// together).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

struct NodePart {
  std::string name;              // "PCIe switch 1", "CPU0"
  BytesPerSecond out;            // of the link out of it, one direction
  std::vector<bool> gpus, nics;  // by index: below it
};

struct NodeParts {
  std::vector<NodePart> parts;  // only those whose link can be the narrowest that some transfer has
  std::vector<int> order;       // GPUs as rings visit them: near ones side by side
  std::vector<int> nics;        // by GPU: the adapter that it sends through
};
NodeParts node_parts(const Cluster& cluster, std::int64_t node);

// The adapter that a GPU sends through when there are fewer than GPUs, or as many: the nearest, in
// turns where several are; one of its own otherwise. 0 without adapters.
int nic_of(const Node& node, int gpu);
// What a PCIe link carries of its raw rate: large transfers reach 0.85 of it after packet headers
// (26.7 of 31.5 GB/s is what generation 4 measures, 55.1 to 55.4 of 63 pinned copies on generation
// 5, eight H200 at once).
BytesPerSecond pcie_carries(BytesPerSecond raw);
// The raw rate of a GPU's own PCIe link.
BytesPerSecond gpu_pcie(const Node& node, int gpu);
// What an adapter carries, one direction: its line rate, or what its own PCIe link lets through
// where that is known to be narrower.
BytesPerSecond adapter_rate(const Node& node, int nic);
// Whether NVLink or xGMI joins all these GPUs of a node.
bool joined_by_links(const Node& node, const std::vector<int>& gpus);

}  // namespace trireme::topologies
