// The time that data takes on the links, with rates as measured.
#include <algorithm>
#include <cmath>

#include "topologies/nccl_terms.h"

namespace trireme::topologies {
namespace {

// Of the bytes on a link that are data: LL sends a flag with every four, LL128 eight in 128.
double payload(NcclProtocol protocol) {
  return protocol == NcclProtocol::kLL ? 0.5 : (protocol == NcclProtocol::kLL128 ? 0.9375 : 1.0);
}

double line_rate(const NcclGraph& graph) {
  return graph.intra_total / graph.line_share;
}

double ring_share(const FabricFit& fabric, NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::kLL:
      return fabric.ll_share;
    case NcclProtocol::kLL128:
      return fabric.ll128_share;
    case NcclProtocol::kSimple:
      break;
  }
  return fabric.ring_share;
}

NcclTransfer ring_transfer(const NcclInputs& in, NcclProtocol protocol) {
  const NcclGraph& graph = in.graph;
  const double ranks = graph.ranks;
  double rate = ring_share(in.fabric, protocol) * payload(protocol) * line_rate(graph);
  bool network_bound = false;
  double faster = 0.0;  // of the time, on the hops that do not set the pace
  if (graph.nodes > 1) {
    const double per_node = graph.ranks_per_node;
    const double inside = per_node > 1.0 ? rate * per_node / (per_node - 1.0) : kInfinity;
    // Channels are doubled at connect time, so that NCCL's caps of one LL128 channel do not bind.
    const double nics = in.network.efficiency * graph.net_total / graph.uplink_slowdown;
    const double outside =
        protocol == NcclProtocol::kLL ? ring_bus(in, protocol, nics) : payload(protocol) * nics;
    network_bound = outside < inside;
    faster = (1.0 + (per_node - 1.0) * outside / inside) / per_node;
    rate = std::min(inside, outside);
  }
  const double part = in.bytes / ranks / kBytesPerMicrosecond;
  const bool copies = in.collective != Collective::kBroadcast;
  double us =
      part * (ring_steps(in) / rate + (copies ? 1.0 / in.fabric.copy_gbytes_per_second : 0.0));
  if (protocol == NcclProtocol::kSimple) {
    us *= ramp_factor(in.fabric.ramp_mib, in.bytes);
  }
  if (protocol != NcclProtocol::kLL && graph.nodes > 1) {
    us *= ramp_factor(in.network.ramp_mib, in.bytes);
  }
  return {us, network_bound, us * std::min(1.0, faster)};
}

NcclTransfer tree_transfer(const NcclInputs& in, NcclProtocol protocol) {
  const NcclGraph& graph = in.graph;
  double inside = kInfinity;
  if (graph.ranks_per_node > 1) {
    // A link carries the message up and down.
    inside = 0.5 * in.fabric.tree_share * payload(protocol) * line_rate(graph) *
             nccl_tree_factor(protocol, in.bytes);
  }
  double outside = kInfinity;
  if (graph.nodes > 1) {
    outside = in.network.tree_efficiency * payload(protocol) * graph.net_total /
              tree_traffic(graph.nodes) / graph.uplink_slowdown;
  }
  double us = in.bytes / (std::min(inside, outside) * kBytesPerMicrosecond);
  if (protocol != NcclProtocol::kLL && graph.nodes > 1) {
    us *= ramp_factor(in.network.ramp_mib, in.bytes);
  }
  return {us, outside < inside};
}

// With more GPUs than NVLS channels (NVL72: 72 over 32) the channels are shared unevenly: 839 GB/s
// of bus bandwidth where eight GPUs reach 846 of a smaller traffic.
constexpr double kSharedHeads = 0.82;
// Of the in-node rate when a tree between nodes feeds the switches (two p5 nodes: 487 of 514 GB/s).
constexpr double kTreeOverSwitches = 0.95;

// In-switch reduction: each GPU's link carries the message once and its own share once more.
NcclTransfer nvls_transfer(const NcclInputs& in, NcclAlgorithm algorithm) {
  const NcclGraph& graph = in.graph;
  const double per_node = graph.ranks_per_node;
  const double rate = in.fabric.nvls_share * line_rate(graph) *
                      (graph.ranks_per_node > graph.nvls_heads ? kSharedHeads : 1.0);
  double inside = is_reduce_all(in.collective) ? rate / (1.0 + 1.0 / per_node) : rate;
  double outside = kInfinity;
  if (algorithm == NcclAlgorithm::kNvlsTree) {
    inside *= kTreeOverSwitches;
    outside = in.network.tree_efficiency * graph.net_total / tree_traffic(graph.nodes) /
              graph.uplink_slowdown;
  }
  double us = in.bytes / (std::min(inside, outside) * kBytesPerMicrosecond) *
              ramp_factor(in.fabric.nvls_ramp_mib, in.bytes);
  if (graph.nodes > 1) {
    us *= ramp_factor(in.network.ramp_mib, in.bytes);
  }
  return {us, outside < inside};
}

}  // namespace

double tree_traffic(int nodes) {
  // Two trees of half the message each. Two nodes: one edge a tree, half up and half down of each:
  // the message once. From four nodes on, a node that is inner in one tree and a leaf in the other
  // receives it twice.
  return nodes <= 2 ? 1.0 : (nodes == 3 ? 1.5 : 2.0);
}

NcclTransfer nccl_transfer(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
  switch (algorithm) {
    case NcclAlgorithm::kRing:
      return ring_transfer(in, protocol);
    case NcclAlgorithm::kTree:
      return tree_transfer(in, protocol);
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
      return nvls_transfer(in, algorithm);
    case NcclAlgorithm::kPat: {
      const double rate = in.network.efficiency * in.graph.net_total / in.graph.uplink_slowdown;
      const double ranks = in.graph.ranks;
      return {in.bytes * (ranks - 1.0) / ranks / (rate * kBytesPerMicrosecond) *
                  ramp_factor(in.network.ramp_mib, in.bytes),
              true};
    }
  }
  return {kInfinity, false};
}

}  // namespace trireme::topologies
