#include "topologies/textbook_cost.h"

#include <algorithm>
#include <cmath>

namespace trireme::topologies {

AlphaBeta intra_alpha_beta(const Cluster& cluster, const NcclGraph& graph) {
  if (graph.ranks_per_node <= 1) {
    return {};
  }
  return {cluster.node.nvlink_latency.value, 1.0 / (graph.intra_total * 1e9)};
}

AlphaBeta inter_alpha_beta(const Cluster& cluster, const NcclGraph& graph) {
  if (graph.nodes <= 1) {
    return {};
  }
  // Out of one adapter, through leaf, spine and leaf, into another.
  const double alpha =
      2.0 * cluster.node.nic_latency.value + 3.0 * cluster.network.switch_latency.value;
  const double share = graph.net_total * 1e9 / graph.ranks_per_node / graph.uplink_slowdown;
  return {alpha, 1.0 / share};
}

double log_p_seconds(double ranks, AlphaBeta link, double bytes) {
  return std::ceil(std::log2(ranks)) * (link.alpha + bytes * link.beta);
}

double ring_seconds(Collective collective, double ranks, AlphaBeta link, double bytes) {
  const double part = (ranks - 1.0) / ranks * bytes * link.beta;
  switch (collective) {
    case Collective::kAllReduce:
      return 2.0 * (ranks - 1.0) * link.alpha + 2.0 * part;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return (ranks - 1.0) * link.alpha + part;
    case Collective::kBroadcast: {
      // A chain cut into the best number of segments.
      const double fill =
          std::sqrt(std::max(ranks - 2.0, 0.0) * link.alpha) + std::sqrt(bytes * link.beta);
      return link.alpha + fill * fill;
    }
    case Collective::kSendRecv:
      break;
  }
  return link.alpha + bytes * link.beta;
}

double tree_seconds(Collective collective, double ranks, AlphaBeta link, double bytes) {
  const double levels = std::ceil(std::log2(ranks));
  switch (collective) {
    case Collective::kAllReduce:  // double binary tree
      return 2.0 * levels * link.alpha + 2.0 * bytes * link.beta;
    case Collective::kAllGather:      // recursive doubling
    case Collective::kReduceScatter:  // recursive halving
      return levels * link.alpha + (ranks - 1.0) / ranks * bytes * link.beta;
    case Collective::kAllToAll:  // Bruck
      return levels * (link.alpha + 0.5 * bytes * link.beta);
    case Collective::kBroadcast:  // binomial
      return levels * (link.alpha + bytes * link.beta);
    case Collective::kSendRecv:
      break;
  }
  return link.alpha + bytes * link.beta;
}

double hierarchical_seconds(Collective collective, double local, double nodes, AlphaBeta inside,
                            AlphaBeta outside, double bytes) {
  if (nodes <= 1.0 || local <= 1.0) {
    return ring_seconds(collective, std::max(local, nodes), nodes <= 1.0 ? inside : outside, bytes);
  }
  const double ranks = local * nodes;
  switch (collective) {
    case Collective::kAllReduce:
      return ring_seconds(Collective::kReduceScatter, local, inside, bytes) +
             ring_seconds(Collective::kAllReduce, nodes, outside, bytes / local) +
             ring_seconds(Collective::kAllGather, local, inside, bytes);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return ring_seconds(Collective::kAllGather, nodes, outside, bytes / local) +
             ring_seconds(Collective::kAllGather, local, inside, bytes);
    case Collective::kAllToAll:
      // First within the node, so that each rank then talks to its own number in every other node.
      return ring_seconds(Collective::kAllToAll, local, inside, bytes) +
             (nodes - 1.0) * outside.alpha + (ranks - local) / ranks * bytes * outside.beta;
    case Collective::kBroadcast:
      return ring_seconds(Collective::kBroadcast, nodes, {outside.alpha, outside.beta / local},
                          bytes) +
             ring_seconds(Collective::kBroadcast, local, inside, bytes);
    case Collective::kSendRecv:
      break;
  }
  return outside.alpha + bytes * outside.beta;
}

}  // namespace trireme::topologies
