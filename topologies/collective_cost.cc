#include "topologies/collective_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "topologies/corrections.h"
#include "topologies/measured_collective.h"
#include "topologies/nccl_model.h"
#include "topologies/textbook_cost.h"

namespace trireme::topologies {
namespace {

constexpr std::string_view algorithm_name(NcclAlgorithm algorithm) {
  switch (algorithm) {
    case NcclAlgorithm::kTree:
      return "tree";
    case NcclAlgorithm::kRing:
      return "ring";
    case NcclAlgorithm::kNvls:
      return "nvls";
    case NcclAlgorithm::kNvlsTree:
      return "nvls_tree";
    case NcclAlgorithm::kPat:
      return "pat";
  }
  return "";
}

constexpr std::string_view protocol_name(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::kLL:
      return "LL";
    case NcclProtocol::kLL128:
      return "LL128";
    case NcclProtocol::kSimple:
      return "Simple";
  }
  return "";
}

std::string describe_bottleneck(const Cluster& cluster, const NcclGraph& graph,
                                const NcclTime& time) {
  if (time.latency_us > 0.5 * time.time_us) {
    return "latency";
  }
  if (time.network_bound) {
    return fmt::format("network: {:g} Gbit/s a node of {} x {:g} Gbit/s NICs",
                       graph.net_total * 8.0, cluster.node.nics, cluster.node.nic.value * 8e-9);
  }
  switch (graph.path) {
    case IntraPath::kNvlink:
      return fmt::format("NVLink: {:g} GB/s a GPU", cluster.node.nvlink_per_gpu.value * 1e-9);
    case IntraPath::kPciePair:
    case IntraPath::kPciePeer:
      return fmt::format("PCIe: {:g} GB/s a GPU", cluster.node.pcie_per_gpu.value * 1e-9);
    case IntraPath::kHostNode:
    case IntraPath::kHostSystem:
      return "host memory between GPUs without peer to peer";
    case IntraPath::kNone:
      break;
  }
  return "network";
}

double textbook_seconds(const Cluster& cluster, const NcclGraph& graph, Collective collective,
                        double bytes, CostFamily family) {
  const AlphaBeta inside = intra_alpha_beta(cluster, graph);
  const AlphaBeta outside = inter_alpha_beta(cluster, graph);
  // A flat algorithm runs at the pace of its slowest link. A ring enters each node once, so there
  // the NICs of the node carry one rank's traffic, not all of them.
  AlphaBeta flat = graph.nodes > 1 ? outside : inside;
  if (family == CostFamily::kRing && graph.nodes > 1) {
    flat.beta = std::max(inside.beta, outside.beta / graph.ranks_per_node);
  }
  switch (family) {
    case CostFamily::kLogP:
      return log_p_seconds(graph.ranks, flat, bytes);
    case CostFamily::kRing:
      return ring_seconds(collective, graph.ranks, flat, bytes);
    case CostFamily::kTree:
      return tree_seconds(collective, graph.ranks, flat, bytes);
    case CostFamily::kHierarchical:
      return hierarchical_seconds(collective, graph.ranks_per_node, graph.nodes, inside, outside,
                                  bytes);
    case CostFamily::kNccl:
      break;
  }
  return 0.0;
}

constexpr std::string_view family_algorithm(CostFamily family) {
  switch (family) {
    case CostFamily::kLogP:
      return "logp";
    case CostFamily::kRing:
      return "ring";
    case CostFamily::kTree:
      return "tree";
    case CostFamily::kHierarchical:
      return "hierarchical";
    case CostFamily::kNccl:
      return "nccl";
  }
  return "";
}

}  // namespace

CollectiveTime collective_time(const Cluster& cluster, const Profile& profile,
                               Collective collective, const GroupShape& group, Bytes size,
                               CostFamily family, bool say_bottleneck) {
  TRIREME_CHECK(group.ranks >= 1);
  TRIREME_CHECK(size.value >= 0);
  CollectiveTime result;
  if (group.ranks == 1) {
    return result;
  }
  const NcclGraph graph = nccl_graph(cluster, group);
  const double bytes = static_cast<double>(size.value);
  if (family != CostFamily::kNccl) {
    result.time = Seconds(textbook_seconds(cluster, graph, collective, bytes, family));
    result.algorithm = family_algorithm(family);
    result.bottleneck = graph.nodes > 1 ? "network" : "in-node links";
    return result;
  }
  const FabricFit fabric = fabric_fit(profile, graph, cluster.gpu);
  const NetworkFit network =
      graph.nodes > 1 ? network_fit(profile, cluster.network.name) : NetworkFit{};
  const bool point_to_point =
      collective == Collective::kAllToAll || collective == Collective::kSendRecv;
  const auto model = [&](double size_bytes) {
    return point_to_point ? p2p_time(cluster, graph, fabric, network, collective, size_bytes)
                          : nccl_time(graph, fabric, network, collective, size_bytes);
  };
  const NcclTime time = model(bytes);
  result.time = Seconds(time.time_us * 1e-6);
  result.algorithm = point_to_point ? "p2p" : algorithm_name(time.algorithm);
  result.protocol = point_to_point ? "Simple" : protocol_name(time.protocol);
  if (const CollectiveTable* table = measured_table(profile, cluster, collective, group);
      table != nullptr && bytes > 0) {
    // Beyond the measured sizes the model goes on from the nearest measured one.
    const CollectiveTable::Point& edge =
        bytes < table->points.front().bytes ? table->points.front() : table->points.back();
    const bool inside = bytes >= table->points.front().bytes && bytes <= table->points.back().bytes;
    result.time =
        Seconds(inside ? interpolated_seconds(*table, bytes)
                       : result.time.value * edge.seconds * 1e6 / model(edge.bytes).time_us);
    result.measured = inside;
  }
  result.time = Seconds(
      result.time.value *
      correction_of(profile, collective == Collective::kSendRecv ? "send_recv" : "collective"));
  if (say_bottleneck) {
    result.bottleneck = describe_bottleneck(cluster, graph, time);
  }
  return result;
}

double bus_bandwidth_factor(Collective collective, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  switch (collective) {
    case Collective::kAllReduce:
      return 2.0 * (n - 1.0) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return (n - 1.0) / n;
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      break;
  }
  return 1.0;
}

}  // namespace trireme::topologies
