// All-to-all and send/receive: NCCL has no model for point-to-point traffic, so this one is ours.
// Each GPU sends to all peers at once; its fabric link and its share of the node's NICs work side
// by side, and its own part is a local copy.
#include <algorithm>
#include <cmath>

#include "topologies/nccl_model.h"

namespace trireme::topologies {
namespace {

constexpr double kMiB = 1048576.0;
constexpr double kPerMicrosecond = 1e3;
// Each remote peer costs a message of its own; eight are in flight at a time.
constexpr double kRemotePeerMicroseconds = 0.5;

double ramp_factor(double ramp_mib, double bytes) {
  return 1.0 + std::sqrt(ramp_mib * kMiB / bytes);
}

// GB/s out of one GPU to all its peers in the node at once.
double intra_rate(const Cluster& cluster, const NcclGraph& graph, const FabricFit& fabric) {
  double rate = fabric.p2p_efficiency * graph.intra_total;
  // In a cube mesh most pairs have no link of their own and cross another GPU or PCIe.
  if (cluster.node.fabric == Node::Fabric::kCubeMesh && graph.ranks_per_node > 4) {
    rate *= 0.5;
  }
  return rate;
}

NcclTime all_to_all(const Cluster& cluster, const NcclGraph& graph, const FabricFit& fabric,
                    const NetworkFit& network, double bytes) {
  const double ranks = graph.ranks;
  const double local = graph.ranks_per_node;
  const double part = bytes / ranks / kPerMicrosecond;
  const double inside =
      local > 1.0 ? part * (local - 1.0) / intra_rate(cluster, graph, fabric) : 0.0;
  double outside = 0.0;
  double latency = fabric.p2p_us + fabric.p2p_peer_us * (local - 1.0);
  double ramp = fabric.p2p_ramp_mib;
  if (graph.nodes > 1) {
    // Traffic leaves a unit for most destinations, so uplinks carry nearly all of it.
    const int units = static_cast<int>((cluster.nodes + cluster.network.nodes_per_unit - 1) /
                                       std::max(1, cluster.network.nodes_per_unit));
    const double leaving = units > 1 ? 1.0 - 1.0 / std::min<double>(units, graph.nodes) : 0.0;
    const double slowdown = std::max(1.0, cluster.network.oversubscription * leaving);
    outside = part * (ranks - local) * local / (network.efficiency * graph.net_total) * slowdown;
    latency +=
        nccl_latencies().network[index_of(NcclAlgorithm::kRing)][index_of(NcclProtocol::kLL)] +
        network.latency_us + kRemotePeerMicroseconds * (ranks - local);
    ramp = std::max(ramp, network.ramp_mib);
  }
  NcclTime result;
  result.network_bound = outside > inside;
  result.latency_us = latency;
  result.time_us = latency + std::max(inside, outside) * ramp_factor(ramp, bytes) +
                   part / fabric.copy_gbytes_per_second;
  return result;
}

NcclTime send_receive(const Cluster& cluster, const NcclGraph& graph, const FabricFit& fabric,
                      const NetworkFit& network, double bytes) {
  NcclTime result;
  result.latency_us = fabric.p2p_us;
  double rate = 0.0;
  double ramp = fabric.p2p_ramp_mib;
  if (graph.nodes > 1) {
    result.latency_us +=
        nccl_latencies().network[index_of(NcclAlgorithm::kRing)][index_of(NcclProtocol::kLL)] +
        network.latency_us;
    // One GPU sends, over its own NICs; a node with fewer NICs than GPUs has a whole one for it.
    const double own = std::max(graph.net_total / graph.ranks_per_node,
                                std::min(graph.net_total, cluster.node.nic.value * 1e-9));
    rate = network.efficiency * own / graph.uplink_slowdown;
    ramp = std::max(ramp, network.ramp_mib);
    result.network_bound = true;
  } else {
    // Over a mesh or cube mesh a pair has its own links only.
    rate = fabric.p2p_efficiency * ring_rate(cluster, 2, graph.path);
  }
  result.time_us = result.latency_us + bytes / (rate * kPerMicrosecond) * ramp_factor(ramp, bytes);
  return result;
}

}  // namespace

NcclTime p2p_time(const Cluster& cluster, const NcclGraph& graph, const FabricFit& fabric,
                  const NetworkFit& network, Collective collective, double bytes) {
  const double size = std::max(bytes, 1.0);
  return collective == Collective::kAllToAll ? all_to_all(cluster, graph, fabric, network, size)
                                             : send_receive(cluster, graph, fabric, network, size);
}

}  // namespace trireme::topologies
