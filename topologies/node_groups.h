// Clusters whose nodes are not all alike: groups of alike nodes, which rank is where, and what all
// of them keep up with. Every function holds for clusters of alike nodes too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

// More would not fit the sets of groups that the planner keeps for each stage.
constexpr std::size_t kNodeGroupsMost = 32;

struct RankRange {
  std::int64_t first = 0, last = 0;  // [first, last)
};

inline bool has_unlike_nodes(const Cluster& cluster) {
  return !cluster.groups.empty();
}
// Makes `groups`, in the order of their ranks, the cluster's nodes: counts nodes and GPUs, and
// makes `gpu` the slowest card with the least memory and `node` the narrowest of each link, at
// whose pace a collective over all of them runs. One group is a cluster of alike nodes. Requires:
// not empty.
void set_groups(Cluster& cluster, std::vector<NodeGroup> groups);
// The cluster with the card and the node of one group: what its ranks have for themselves.
Cluster viewed_from(const Cluster& cluster, std::size_t group);
// Of the group that is viewed, or of all.
RankRange viewed_ranks(const Cluster& cluster);
// In use; empty for a group behind the last GPU in use.
RankRange ranks_of_group(const Cluster& cluster, std::size_t group);

std::int64_t node_of_rank(const Cluster& cluster, std::int64_t rank);
std::int64_t first_rank_of(const Cluster& cluster, std::int64_t node);
const Node& node_at(const Cluster& cluster, std::int64_t node);

// "64 x H100-SXM5-80GB", "8 x A100-SXM4-80GB + 8 x H100-SXM5-80GB".
std::string cards_text(const Cluster& cluster);
// The name of the card, or of all of them joined by " + ".
std::string card_names(const Cluster& cluster);
// Dense peak of a GPU, mean over those in use; 0 where a card does not have the precision.
FlopPerSecond mean_peak(const Cluster& cluster, Precision precision);
// Power limits of the GPUs in use, together.
double board_watts(const Cluster& cluster);

}  // namespace trireme::topologies
