// What traffic between nodes meets above the leaves: the one place that routes, the closed form and
// the simulator ask. A tier is all units, all pods or all sites: what leaves one of them shares the
// links out of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

struct NetworkTier {
  std::string name;               // "unit", "pod", "site"
  std::int64_t nodes = 1;         // below one of it; of unlike units the least
  double oversubscription = 1.0;  // what its nodes' NICs carry over what leaves it
  // Links that a message to the next one takes, of those out of each: more than one where it goes
  // by way of a third, because the two have too few between them.
  double detour = 1.0;
  Seconds latency;  // of crossing, one way, beside the tiers below
};

// Bottom up, those that there are several of. None in a torus.
std::vector<NetworkTier> network_tiers(const Cluster& cluster);
// Of a tier's links, the index of the one that a node is below.
std::int64_t part_of_node(const Cluster& cluster, std::size_t tier, std::int64_t node);
// The nodes below it are [first, first + part_size).
std::int64_t part_size(const Cluster& cluster, std::size_t tier, std::int64_t part);

// What leaves the part of a tier that begins at node `first`, one direction: its nodes' adapters
// over the oversubscription.
BytesPerSecond uplinks_from(const Cluster& cluster, std::size_t tier, std::int64_t first);
// What leaves one part of a level, one direction.
BytesPerSecond out_of(const Cluster& cluster, const NetworkLevel& level);

// By how much traffic between neighbours of a group (members `node_stride` nodes apart, on `nodes`
// nodes), or from each to all, is slower than the NICs, while all groups of the cluster do the
// same.
double neighbour_slowdown(const Cluster& cluster, double node_stride, int nodes);
double spread_slowdown(const Cluster& cluster, int nodes);
// What the farthest message of such a group takes longer, one way, and the mean of all hops of a
// ring over it.
struct FarLatency {
  Seconds farthest, mean;
};
FarLatency far_latency(const Cluster& cluster, double node_stride, int nodes);

// Links between two nodes of a torus, the shortest way round; and of a node to all, on average.
int torus_hops(const Network& network, std::int64_t from, std::int64_t to);
double mean_torus_hops(const Network& network);

}  // namespace trireme::topologies
