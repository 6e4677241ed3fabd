#include "topologies/nccl_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::topologies {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMiB = 1048576.0;
constexpr double kPerMicrosecond = 1e3;  // bytes per microsecond of 1 GB/s

struct Inputs {
  const NcclGraph& graph;
  const FabricFit& fabric;
  const NetworkFit& network;
  Collective collective;
  double bytes;
};

double log2_floor(int nodes) {
  return std::floor(std::log2(static_cast<double>(std::max(nodes, 1))));
}

std::size_t scale_column(int nodes) {
  return nodes == 1 ? 0U : (nodes == 2 ? 1U : 2U);
}

bool is_reduce_all(Collective collective) {
  return collective == Collective::kAllReduce;
}

double ring_steps(const Inputs& in) {
  const double n = in.graph.ranks;
  if (is_reduce_all(in.collective)) {
    return 2.0 * (n - 1.0);
  }
  return in.collective == Collective::kBroadcast ? n : n - 1.0;
}

bool said(unsigned set, std::size_t index) {
  return set == 0 || ((set >> index) & 1U) != 0;
}

bool allowed(const Inputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const NcclGraph& graph = in.graph;
  if (!said(graph.algorithms, index_of(algorithm)) || !said(graph.protocols, index_of(protocol))) {
    return false;
  }
  const bool simple = protocol == NcclProtocol::kSimple;
  if (protocol == NcclProtocol::kLL128 && graph.path != IntraPath::kNvlink &&
      graph.path != IntraPath::kNone) {
    return false;
  }
  if (protocol == NcclProtocol::kLL128 && graph.nodes > 1 && in.network.ll128 <= 0.0) {
    return false;
  }
  // Trees pair the heads of all nodes: among unlike nodes the ring is assumed to be what is left.
  if (graph.uneven && algorithm != NcclAlgorithm::kRing) {
    return false;
  }
  switch (algorithm) {
    case NcclAlgorithm::kRing:
      return true;
    case NcclAlgorithm::kTree:
      return is_reduce_all(in.collective);
    case NcclAlgorithm::kNvls:
      return simple && graph.nvls_heads > 0 && graph.nodes == 1 &&
             in.collective != Collective::kBroadcast &&
             (is_reduce_all(in.collective) || graph.ranks <= 32);
    case NcclAlgorithm::kNvlsTree:
      return simple && graph.nvls_heads > 1 && graph.nodes > 1 && is_reduce_all(in.collective);
    case NcclAlgorithm::kPat:
      return simple && graph.ranks_per_node == 1 && graph.nodes > 1 &&
             !is_reduce_all(in.collective) && in.collective != Collective::kBroadcast;
  }
  return false;
}

// NCCL's latency in microseconds (tuning.cc), with its `base` and one step in the node `step_scale`
// times as long.
double latency(const Inputs& in, NcclAlgorithm algorithm, NcclProtocol protocol, double base,
               double step_scale) {
  const NcclGraph& graph = in.graph;
  const NcclLatencies& table = nccl_latencies();
  const std::size_t a = index_of(algorithm);
  const std::size_t p = index_of(protocol);
  const bool simple = protocol == NcclProtocol::kSimple;
  const bool fast_link = graph.path == IntraPath::kNvlink || graph.path == IntraPath::kNone;
  const double intra =
      step_scale * (fast_link ? graph.step_latency * table.nvlink[a][p] : table.pcie[a][p]);
  // With one GPU a node every algorithm gets the tree's network latency; Simple pays the plug-in
  // twice (flush).
  const std::size_t row = graph.ranks_per_node == 1 ? index_of(NcclAlgorithm::kTree) : a;
  const double inter =
      table.network[row][p] + (in.network.latency_us + graph.hop_extra_us) * (simple ? 2.0 : 1.0);
  const double levels = log2_floor(graph.nodes);
  const double ranks = graph.ranks;
  switch (algorithm) {
    case NcclAlgorithm::kRing: {
      const double steps = ring_steps(in);
      const double between =
          graph.nodes == 1 ? 0.0 : (is_reduce_all(in.collective) ? 2.0 : 1.0) * (graph.nodes - 1.0);
      const double overhead =
          graph.nodes == 1 ? 0.0 : (graph.amd_cpu ? 2.0 : 1.0) * (simple ? 3.0 : 1.0);
      return base + (steps - between) * std::max(intra, overhead) +
             between * (inter + graph.ring_far_us);
    }
    case NcclAlgorithm::kTree:
      return base + 2.0 * ((graph.ranks_per_node - 1.0) * intra + levels * inter + graph.far_us);
    case NcclAlgorithm::kNvls:
      return base + intra + (graph.nodes > 1 ? inter + graph.far_us : 0.0);
    case NcclAlgorithm::kNvlsTree:
      return base + intra + 2.0 * (levels * inter + graph.far_us);
    case NcclAlgorithm::kPat:
      return base + levels * inter / 3.5 + graph.far_us + 2.8 * ranks;
  }
  return kInfinity;
}

// NCCL's algorithm bandwidth in GB/s, from a bus rate over all channels.
double ring_bus(const Inputs& in, NcclProtocol protocol, double bus) {
  const NcclGraph& graph = in.graph;
  const NcclBandwidthCaps& caps = nccl_caps(graph.generation);
  if (protocol == NcclProtocol::kLL) {
    const double cap =
        graph.nodes == 1 ? caps.ll_single : nccl_ll_cap_multi(graph.amd_cpu, graph.nodes);
    return std::min(cap, 0.5 * bus);
  }
  if (protocol == NcclProtocol::kLL128) {
    return std::min(0.92 * bus, graph.channels * caps.ring_ll128);
  }
  return bus;
}

double tree_algorithm_bandwidth(const Inputs& in, NcclProtocol protocol, double bus) {
  const NcclGraph& graph = in.graph;
  const NcclBandwidthCaps& caps = nccl_caps(graph.generation);
  const std::size_t column = scale_column(graph.nodes);
  double rate = std::min(0.92 * bus, graph.tree_channels * caps.tree[column]);
  if (protocol == NcclProtocol::kLL) {
    const double cap =
        graph.nodes == 1 ? caps.ll_single : nccl_ll_cap_multi(graph.amd_cpu, graph.nodes);
    rate = std::min(bus / 3.8, cap);
  } else if (protocol == NcclProtocol::kLL128) {
    rate = std::min(rate * (graph.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                    graph.tree_channels * caps.tree_ll128[column]);
  }
  return 0.5 * rate * nccl_tree_factor(protocol, in.bytes);
}

// NVLS and NVLSTree as NCCL books them, as algorithm bandwidth.
double nvls_nominal(const Inputs& in, NcclAlgorithm algorithm) {
  const NcclGraph& graph = in.graph;
  const NcclBandwidthCaps& caps = nccl_caps(graph.generation);
  const bool tree = algorithm == NcclAlgorithm::kNvlsTree;
  const double heads = graph.nvls_heads;
  double rate = graph.nvls_intra * caps.nvls_efficiency * (heads - 1.0) / heads;
  rate *= is_reduce_all(in.collective) ? 2.0 : (graph.ranks_per_node - 1.0) / graph.ranks_per_node;
  if (tree) {
    rate = std::min({rate, graph.nvls_inter * (graph.nodes <= 2 ? 2.0 : 1.0),
                     caps.nvls_tree[scale_column(graph.nodes)] * 8.0 / heads});
  }
  return rate * heads * graph.ranks / ring_steps(in);
}

double nominal_bandwidth(const Inputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const NcclGraph& graph = in.graph;
  const double bus = graph.channels * graph.channel_speed;
  switch (algorithm) {
    case NcclAlgorithm::kRing:
      return ring_bus(in, protocol, bus) * graph.ranks / ring_steps(in);
    case NcclAlgorithm::kTree:
      return tree_algorithm_bandwidth(
          in, protocol,
          graph.tree_channels * (graph.nodes <= 2 ? graph.tree_intra : graph.tree_inter));
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
      return nvls_nominal(in, algorithm);
    case NcclAlgorithm::kPat:
      return 0.75 * bus;
  }
  return 0.0;
}

// The pipeline has to fill and small pieces use few channels: transfer time grows by the square
// root of ramp / size.
double ramp_factor(double ramp_mib, double bytes) {
  return 1.0 + std::sqrt(ramp_mib * kMiB / bytes);
}

struct Transfer {
  double us = 0.0;
  bool network_bound = false;
  double fast_us = 0.0;  // of it, what the hops in the node take while the network's are waited for
};

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

Transfer ring_transfer(const Inputs& in, NcclProtocol protocol) {
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
  const double part = in.bytes / ranks / kPerMicrosecond;
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

Transfer tree_transfer(const Inputs& in, NcclProtocol protocol) {
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
  double us = in.bytes / (std::min(inside, outside) * kPerMicrosecond);
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
Transfer nvls_transfer(const Inputs& in, NcclAlgorithm algorithm) {
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
  double us = in.bytes / (std::min(inside, outside) * kPerMicrosecond) *
              ramp_factor(in.fabric.nvls_ramp_mib, in.bytes);
  if (graph.nodes > 1) {
    us *= ramp_factor(in.network.ramp_mib, in.bytes);
  }
  return {us, outside < inside};
}

Transfer transfer(const Inputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
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
      return {in.bytes * (ranks - 1.0) / ranks / (rate * kPerMicrosecond) *
                  ramp_factor(in.network.ramp_mib, in.bytes),
              true};
    }
  }
  return {kInfinity, false};
}

// A ring of Simple chunks over several nodes waits for its slowest link each step.
double long_ring_factor(const NcclGraph& graph, Collective collective, NcclAlgorithm algorithm,
                        NcclProtocol protocol, double bytes) {
  const bool applies = algorithm == NcclAlgorithm::kRing && protocol == NcclProtocol::kSimple &&
                       graph.nodes > 1 && is_reduce_all(collective) &&
                       bytes / (graph.channels * static_cast<double>(graph.ranks)) >= 64;
  if (!applies) {
    return 1.0;
  }
  return graph.generation == NcclGeneration::kVolta ? 1.9 : 1.4;
}

NcclTime evaluate(const Inputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
  NcclTime result{algorithm, protocol, kInfinity, kInfinity, kInfinity, false};
  if (!allowed(in, algorithm, protocol)) {
    return result;
  }
  const double factor = long_ring_factor(in.graph, in.collective, algorithm, protocol, in.bytes);
  const double bandwidth = nominal_bandwidth(in, algorithm, protocol);
  const double base = nccl_latencies().base[index_of(algorithm)][index_of(protocol)];
  result.nominal_us = bandwidth > 0.0 ? factor * latency(in, algorithm, protocol, base, 1.0) +
                                            in.bytes / (bandwidth * kPerMicrosecond)
                                      : kInfinity;
  return result;
}

void finish(const Inputs& in, NcclTime& result) {
  const double factor =
      long_ring_factor(in.graph, in.collective, result.algorithm, result.protocol, in.bytes);
  const Transfer moved = transfer(in, result.algorithm, result.protocol);
  double start = in.fabric.start_us;
  double step_scale = in.fabric.step_scale;
  if (result.protocol == NcclProtocol::kLL128) {
    start += in.fabric.ll128_start_us;
  } else if (result.protocol == NcclProtocol::kSimple) {
    start += in.fabric.simple_start_us;
    step_scale = in.fabric.simple_step_scale;
  }
  result.latency_us =
      start + factor * latency(in, result.algorithm, result.protocol, 0.0, step_scale);
  result.time_us = result.latency_us + moved.us;
  if (result.algorithm == NcclAlgorithm::kRing && moved.network_bound) {
    // Between two hops over the network a chunk has as long as the chunks before it take there: the
    // steps' latency shows only beyond that.
    result.time_us = std::max(start + moved.us, result.latency_us + moved.fast_us);
  }
  result.network_bound = moved.network_bound;
}

constexpr std::array kEveryAlgorithm = {NcclAlgorithm::kTree, NcclAlgorithm::kRing,
                                        NcclAlgorithm::kNvls, NcclAlgorithm::kNvlsTree,
                                        NcclAlgorithm::kPat};
constexpr std::array kEveryProtocol = {NcclProtocol::kLL, NcclProtocol::kLL128,
                                       NcclProtocol::kSimple};

}  // namespace

double tree_traffic(int nodes) {
  // Two trees of half the message each. Two nodes: one edge a tree, half up and half down of each:
  // the message once. From four nodes on, a node that is inner in one tree and a leaf in the other
  // receives it twice.
  return nodes <= 2 ? 1.0 : (nodes == 3 ? 1.5 : 2.0);
}

NcclTime nccl_time(const NcclGraph& graph, const FabricFit& fabric, const NetworkFit& network,
                   Collective collective, double bytes) {
  const Inputs in{graph, fabric, network, collective, std::max(bytes, 1.0)};
  NcclTime best{};
  best.nominal_us = kInfinity;
  for (const NcclAlgorithm algorithm : kEveryAlgorithm) {
    for (const NcclProtocol protocol : kEveryProtocol) {
      const NcclTime candidate = evaluate(in, algorithm, protocol);
      if (candidate.nominal_us < best.nominal_us) {
        best = candidate;
      }
    }
  }
  if (!std::isfinite(best.nominal_us)) {
    // NCCL_ALGO leaves nothing that this collective has: NCCL goes on with the ring.
    NcclGraph any = graph;
    any.algorithms = any.protocols = 0;
    return nccl_time_of(any, fabric, network, collective, bytes, NcclAlgorithm::kRing,
                        NcclProtocol::kSimple);
  }
  finish(in, best);
  return best;
}

NcclTime nccl_time_of(const NcclGraph& graph, const FabricFit& fabric, const NetworkFit& network,
                      Collective collective, double bytes, NcclAlgorithm algorithm,
                      NcclProtocol protocol) {
  const Inputs in{graph, fabric, network, collective, std::max(bytes, 1.0)};
  NcclTime result = evaluate(in, algorithm, protocol);
  if (std::isfinite(result.nominal_us)) {
    finish(in, result);
  }
  return result;
}

}  // namespace trireme::topologies
