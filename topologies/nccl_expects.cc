// What NCCL itself expects of an algorithm and protocol (src/graph/tuning.cc): its choice is the
// least.
#include <algorithm>
#include <cmath>

#include "topologies/nccl_terms.h"

namespace trireme::topologies {
namespace {

double log2_floor(int nodes) {
  return std::floor(std::log2(static_cast<double>(std::max(nodes, 1))));
}

std::size_t scale_column(int nodes) {
  return nodes == 1 ? 0U : (nodes == 2 ? 1U : 2U);
}

bool said(unsigned set, std::size_t index) {
  return set == 0 || ((set >> index) & 1U) != 0;
}

double tree_algorithm_bandwidth(const NcclInputs& in, NcclProtocol protocol, double bus) {
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
double nvls_nominal(const NcclInputs& in, NcclAlgorithm algorithm) {
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

}  // namespace

double ring_steps(const NcclInputs& in) {
  const double n = in.graph.ranks;
  if (is_reduce_all(in.collective)) {
    return 2.0 * (n - 1.0);
  }
  return in.collective == Collective::kBroadcast ? n : n - 1.0;
}

bool nccl_allows(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
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

double nccl_latency(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol,
                    double base, double step_scale) {
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

double ring_bus(const NcclInputs& in, NcclProtocol protocol, double bus) {
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

double nominal_bandwidth(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
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

}  // namespace trireme::topologies
