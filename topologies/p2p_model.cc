// All-to-all and send/receive: NCCL has no model for point-to-point traffic, so this one is ours.
// Each GPU sends to all peers at once; its fabric link and its share of the node's NICs work side
// by side, and its own part is a local copy.
#include <algorithm>
#include <cmath>

#include "topologies/nccl_terms.h"
#include "topologies/network_tiers.h"

namespace trireme::topologies {
namespace {

constexpr double kPerMicrosecond = 1e3;
// Each remote peer costs a message of its own, with as many in flight as hide most of its latency:
// 60 us of 8 bytes over 2 nodes of p5 and 621 us over 16 (8 and 120 remote peers, EFA v2's 24 us).
double remote_peer_us(const NetworkFit& network) {
  return 0.2 + 0.2 * std::max(network.latency_us, 0.0);
}
// What one channel carries over a network: 21 GB/s where a peer had one channel and 400 Gbit/s of
// adapters (p5, from 5 nodes on).
constexpr double kChannelRate = 21.5;

// NCCL starts from two channels a remote peer and halves them while all peers together would put
// more than four messages on a channel (ncclTopoGetNchannels); on 16 channels two stay up to 32
// ranks.
int channels_to_peer(const Cluster& cluster, int ranks) {
  constexpr int kUsual = 2;
  const int p2p_channels = std::max(16, cluster.nccl.min_channels);
  const int most = cluster.nccl.max_channels > 0 ? std::min(p2p_channels, cluster.nccl.max_channels)
                                                 : p2p_channels;
  int channels = std::min(kUsual, most);
  while (channels > 1 && static_cast<std::int64_t>(channels) * ranks > 4LL * most) {
    channels /= 2;
  }
  return channels;
}

// GB/s to one remote peer. Its channels share one adapter; AWS's plug-in spreads every
// message over all adapters of a GPU.
double peer_rate(const Cluster& cluster, const NetworkFit& network, int ranks) {
  const Node& node = cluster.node;
  const bool spreads = cluster.network.name.starts_with("EFA") && node.nics > node.gpus;
  const double adapters = spreads ? static_cast<double>(node.nics) / node.gpus : 1.0;
  const double line = network.efficiency * adapters * node.nic.value * 1e-9;
  return channels_to_peer(cluster, ranks) > 1 ? line : std::min(line, kChannelRate);
}

// GB/s out of one GPU to all its peers in the node at once.
double intra_rate(const Cluster& cluster, const NcclGraph& graph, const FabricFit& fabric) {
  double rate = fabric.p2p_share * graph.intra_total / graph.line_share;
  // In a cube mesh most pairs have no link of their own and cross another GPU or PCIe.
  if (cluster.node.fabric == Node::Fabric::kCubeMesh && graph.ranks_per_node > 4) {
    rate *= 0.5;
  }
  return rate;
}

// A message within the node takes one hop, of the usual 0.7 us.
double in_node_extra_us(const NcclGraph& graph) {
  return graph.path == IntraPath::kNvlink ? 0.7 * (graph.step_latency - 1.0) : 0.0;
}

double first_message_us(const NcclGraph& graph, const NetworkFit& network) {
  return nccl_latencies().network[index_of(NcclAlgorithm::kRing)][index_of(NcclProtocol::kLL)] +
         network.latency_us + graph.hop_extra_us;
}

NcclTime all_to_all(const Cluster& cluster, const NcclGraph& graph, const FabricFit& fabric,
                    const NetworkFit& network, double bytes) {
  const double ranks = graph.ranks;
  const double local = graph.ranks_per_node;
  const double part = bytes / ranks / kPerMicrosecond;
  const double inside =
      local > 1.0 ? part * (local - 1.0) / intra_rate(cluster, graph, fabric) : 0.0;
  double outside = 0.0;
  double latency = fabric.p2p_us + in_node_extra_us(graph) + fabric.p2p_peer_us * (local - 1.0);
  double ramp = fabric.p2p_ramp_mib;
  if (graph.nodes > 1) {
    const double slowdown = spread_slowdown(cluster, graph.nodes);
    const double reached =
        std::min({network.efficiency * graph.net_total,
                  local * (ranks - local) * peer_rate(cluster, network, graph.ranks),
                  network.efficiency * graph.net_line / slowdown});
    outside = part * (ranks - local) * local / reached;
    latency += 0.5 * first_message_us(graph, network) + graph.far_us +
               remote_peer_us(network) * (ranks - local);
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
  result.latency_us = fabric.p2p_us + in_node_extra_us(graph);
  double rate = 0.0;
  double ramp = fabric.p2p_ramp_mib;
  if (graph.nodes > 1) {
    // A pair stands for all neighbours of an axis, which may lie anywhere in the cluster.
    const int anywhere = static_cast<int>(std::min<std::int64_t>(cluster.nodes, 10'000'000));
    const FarLatency far = far_latency(cluster, graph.node_stride, anywhere);
    result.latency_us += first_message_us(graph, network) + far.farthest.value * 1e6;
    // One GPU sends, over its own NICs; a node with fewer NICs than GPUs has a whole one for it.
    const auto own = [&](double node_rate) {
      return std::max(node_rate / graph.ranks_per_node,
                      std::min(node_rate, cluster.node.nic.value * 1e-9));
    };
    rate = std::min({network.efficiency * own(graph.net_total),
                     peer_rate(cluster, network, graph.ranks),
                     network.efficiency * own(graph.net_line) /
                         neighbour_slowdown(cluster, graph.node_stride, anywhere)});
    ramp = std::max(ramp, network.ramp_mib);
    result.network_bound = true;
  } else {
    // Over a mesh or cube mesh a pair has its own links only.
    rate = fabric.p2p_share * ring_rate(cluster, 2, graph.path) / graph.line_share;
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
