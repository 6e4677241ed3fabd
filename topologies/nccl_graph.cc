#include "topologies/nccl_graph.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme::topologies {
namespace {

constexpr double kGiga = 1e9;
// Peer-to-peer traffic that crosses PCIe host bridges stays at this rate (GB/s) on generation 4 and
// 5 alike (A100 PCIe on AMD hosts, RTX PRO 6000 servers).
constexpr double kPeerAcrossBridges = 25.0;

// Channels x speed that come nearest to `total`, at the highest rung (search.cc tries rungs from
// above and stops below .49 of one that worked).
struct Channels {
  int count = 1;
  double speed = 0.0;
};

Channels fill(std::span<const double> ladder, double total, int count_max) {
  Channels best;
  double first = 0.0;
  for (const double rung : ladder) {
    const int count = std::min(count_max, static_cast<int>(total / rung + 1e-9));
    if (count < 1) {
      continue;
    }
    if (first > 0.0 && rung < 0.49 * first) {
      break;
    }
    first = first > 0.0 ? first : rung;
    if (count * rung > best.count * best.speed + 1e-9) {
      best = {count, rung};
    }
  }
  if (best.speed <= 0.0) {
    best = {1, total};
  }
  return best;
}

double highest_rung(std::span<const double> ladder, double limit) {
  for (const double rung : ladder) {
    if (rung <= limit + 1e-9) {
      return rung;
    }
  }
  return limit;
}

// Channels of 25 GB/s and more are split in two at half speed, except wide ones above sm80.
bool splits(double speed, int channels, int compute_capability) {
  const bool newer = compute_capability > 80 && compute_capability < 900;
  return speed >= 25.0 && !(newer && speed < 50.0 && channels > 4);
}

void plan_single_node(NcclGraph& graph, const Cluster& cluster) {
  const int sm = cluster.gpu.compute_capability;
  Channels found = fill(nccl_ladder(sm, false), graph.intra_total, 32);
  if (splits(found.speed, found.count, sm)) {
    found = {2 * found.count, 0.5 * found.speed};
  }
  graph.channels = graph.tree_channels = found.count;
  graph.channel_speed = graph.tree_intra = graph.tree_inter = found.speed;
}

// The search raises the in-node speed of trees (not of rings) beyond the network's, up to twice
// that.
double raised_tree_speed(std::span<const double> ladder, double inter, double limit) {
  double speed = inter;
  for (auto rung = ladder.rbegin(); rung != ladder.rend(); ++rung) {
    if (*rung > speed && *rung <= limit + 1e-9 && speed < 2.0 * inter) {
      speed = *rung;
    }
  }
  return speed;
}

void plan_network(NcclGraph& graph, const Cluster& cluster, double nics) {
  const int sm = cluster.gpu.compute_capability;
  const auto ladder = nccl_ladder(sm, true);
  const double nic = graph.net_total / nics;
  // A ring passes each GPU's fabric link on all hops of a node but the one that the NIC makes.
  const double ranks = graph.ranks_per_node;
  const double through = ranks > 1 ? graph.intra_total * ranks / (ranks - 1.0) : 1e9;
  graph.net_rung = nics * highest_rung(ladder, nic);
  const double rung = highest_rung(ladder, std::min(nic, through));
  const double wanted = std::max(1.0, std::floor(nics));
  const int channels =
      static_cast<int>(std::clamp(std::floor(through / rung + 1e-9), 1.0, std::min(wanted, 64.0)));
  const double speed = rung * std::min(1.0, nics);
  graph.channels = graph.tree_channels = channels;
  graph.channel_speed = graph.tree_inter = speed;
  graph.tree_intra =
      ranks > 1 ? raised_tree_speed(ladder, speed, graph.intra_total / channels) : speed;
  if (splits(graph.channel_speed, graph.channels, sm)) {
    graph.channels *= 2;
    graph.channel_speed /= 2.0;
  }
  if (splits(graph.tree_intra, graph.tree_channels, sm)) {
    graph.tree_channels *= 2;
    graph.tree_intra /= 2.0;
    graph.tree_inter /= 2.0;
  }
}

void plan_nvls(NcclGraph& graph, const Cluster& cluster) {
  const int sm = cluster.gpu.compute_capability;
  const bool able = cluster.node.fabric == Node::Fabric::kNvSwitch && sm >= 90 && sm < 900 &&
                    sm < 120 && graph.path == IntraPath::kNvlink && graph.ranks > 2 &&
                    graph.ranks_per_node > 1;
  if (!able) {
    return;
  }
  graph.nvls_heads = std::min(graph.ranks_per_node, 32);
  const double head_rate = graph.intra_total / graph.nvls_heads;
  graph.nvls_intra = highest_rung(nccl_ladder(sm, graph.nodes > 1), head_rate);
  graph.nvls_inter = graph.nodes > 1 ? graph.net_rung / graph.nvls_heads : graph.nvls_intra;
}

}  // namespace

int cube_mesh_rings(int ranks) {
  // Six links a GPU, one or two a neighbour (nvidia-smi topo -m of a DGX-1 V100). GPU 4 hangs on
  // GPU 0 alone among the first five, and GPUs 4 and 5 need the one link between them among the
  // first six.
  constexpr std::array<int, 9> kRings = {0, 0, 1, 2, 4, 2, 2, 4, 6};
  return kRings[static_cast<std::size_t>(std::clamp(ranks, 0, 8))];
}

IntraPath intra_path(const Cluster& cluster, int ranks, std::int64_t stride) {
  const Node& node = cluster.node;
  if (ranks <= 1) {
    return IntraPath::kNone;
  }
  const std::int64_t span = (ranks - 1) * stride + 1;  // GPUs from the first member to the last
  if (node.fabric != Node::Fabric::kPcie && span <= node.nvlink_domain) {
    return IntraPath::kNvlink;
  }
  if (span <= std::max(2, node.gpus_per_pcie_switch)) {
    return IntraPath::kPciePair;
  }
  if (node.peer_to_peer) {
    return IntraPath::kPciePeer;
  }
  const bool one_socket = span <= std::max(1, node.gpus / std::max(1, node.sockets));
  return one_socket ? IntraPath::kHostNode : IntraPath::kHostSystem;
}

double ring_rate(const Cluster& cluster, int ranks, IntraPath path) {
  const Node& node = cluster.node;
  const double pcie = nccl_pcie_rate(cluster.gpu.pcie_generation) *
                      (cluster.gpu.pcie.value > 0.0 ? node.pcie_per_gpu / cluster.gpu.pcie : 1.0);
  switch (path) {
    case IntraPath::kNone:
      return 0.0;
    case IntraPath::kPciePair:
    case IntraPath::kHostNode:
      return pcie;
    case IntraPath::kPciePeer:
      return std::min(pcie, kPeerAcrossBridges);
    case IntraPath::kHostSystem:
      return std::min(pcie, node.socket_link.value / kGiga);
    case IntraPath::kNvlink:
      break;
  }
  const double all_links =
      nccl_nvlink_share(cluster.gpu.compute_capability) * node.nvlink_per_gpu.value / kGiga;
  switch (node.fabric) {
    case Node::Fabric::kMesh:
      return all_links * (ranks - 1) / std::max(1, node.nvlink_domain - 1);
    case Node::Fabric::kCubeMesh:
      return all_links * cube_mesh_rings(ranks) / std::max(1, node.nvlink_links);
    case Node::Fabric::kNvSwitch:
    case Node::Fabric::kPairs:
    case Node::Fabric::kPcie:
      break;
  }
  return all_links;
}

double uplink_slowdown(const Cluster& cluster, double node_stride, int nodes) {
  const Network& network = cluster.network;
  if (nodes <= 1 || network.oversubscription <= 1.0 || cluster.nodes <= network.nodes_per_unit) {
    return 1.0;
  }
  // Hops between neighbours `node_stride` nodes apart leave the unit in this share of cases, and
  // all groups of the cluster load the same uplinks.
  const double leaving = std::min(1.0, node_stride / network.nodes_per_unit);
  return std::max(1.0, network.oversubscription * leaving);
}

NcclGraph nccl_graph(const Cluster& cluster, const GroupShape& group) {
  NcclGraph graph;
  const Node& node = cluster.node;
  graph.ranks = static_cast<int>(std::min<std::int64_t>(group.ranks, 100'000'000));
  graph.ranks_per_node =
      static_cast<int>(std::min<std::int64_t>(group.ranks_per_node, group.ranks));
  graph.nodes = (graph.ranks + graph.ranks_per_node - 1) / graph.ranks_per_node;
  graph.generation = nccl_generation(cluster.gpu.compute_capability);
  graph.amd_cpu = node.cpu == "amd";
  graph.path = intra_path(cluster, graph.ranks_per_node, group.stride);
  graph.intra_total = ring_rate(cluster, graph.ranks_per_node, graph.path);
  if (graph.nodes == 1) {
    plan_single_node(graph, cluster);
  } else {
    // Groups that share a node share its NICs, and a group reaches at most the NICs of its own
    // GPUs.
    const double own = static_cast<double>(node.nics) * graph.ranks_per_node / node.gpus;
    const double share =
        static_cast<double>(node.nics) / static_cast<double>(group.concurrent_per_node);
    const double nics = std::min(static_cast<double>(node.nics),
                                 std::max(std::min(own, share), std::min(share, 1.0)));
    graph.net_total = std::max(nics, 1e-3) * node.nic.value / kGiga;
    plan_network(graph, cluster, std::max(nics, 1e-3));
    graph.uplink_slowdown = uplink_slowdown(
        cluster, std::max(1.0, static_cast<double>(group.stride) / node.gpus), graph.nodes);
  }
  plan_nvls(graph, cluster);
  return graph;
}

}  // namespace trireme::topologies
