#include "topologies/nccl_graph.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "topologies/cluster_graph.h"
#include "topologies/corrections.h"
#include "topologies/network_tiers.h"
#include "topologies/node_parts.h"

namespace trireme::topologies {
namespace {

constexpr double kGiga = 1e9;
// One hop through a switch, at which the fabrics' step latencies were measured.
constexpr Seconds kUsualNvlink(0.7e-6);
// Peer-to-peer traffic that crosses PCIe host bridges stays at this rate (GB/s) on generation 4 and
// 5 alike (A100 PCIe on AMD hosts, RTX PRO 6000 servers).
constexpr double kPeerAcrossBridges = 25.0;
// What peer traffic reaches on a link between sockets, of what NCCL books for it: 25 GB/s between
// A100 PCIe on two AMD sockets, booked at 16.
constexpr double kPeerOfSocket = 1.6;

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

// What adapters and switches add to a message beside those that the network's corrections were
// measured with.
double hop_extra_us(const Cluster& cluster) {
  const NetworkFit& usual = network_fit(cluster.network.name);
  const double switches = unit_count(cluster) > 1 ? 3.0 : 1.0;
  return 2.0 * (cluster.node.nic_latency.value * 1e6 - usual.nic_latency_us) +
         switches * (cluster.network.switch_latency.value * 1e6 - usual.switch_latency_us);
}

// Of one adapter on average.
double mean_adapter_rate(const Node& node) {
  if (!node.layout || node.nics <= 0) {
    return node.nic.value;
  }
  double sum = 0.0;
  for (int nic = 0; nic < node.nics; ++nic) {
    sum += adapter_rate(node, nic).value;
  }
  return sum / node.nics;
}

// Rings pass every GPU, so the one on the narrowest PCIe link sets the pace.
BytesPerSecond pcie_of_gpus(const Node& node) {
  BytesPerSecond least = node.pcie_per_gpu;
  for (int gpu = 0; node.layout && gpu < node.gpus; ++gpu) {
    least = std::min(least, gpu_pcie(node, gpu));
  }
  return least;
}

// NCCL_MAX_NCHANNELS bounds what all channels carry by what one can; NCCL_MIN_NCHANNELS gives small
// messages no more than they had and leaves the rate to the links.
void apply_channel_bounds(NcclGraph& graph, const NcclSettings& settings) {
  if (settings.min_channels > graph.channels) {
    const double scale = static_cast<double>(graph.channels) / settings.min_channels;
    graph.channels = graph.tree_channels = settings.min_channels;
    graph.channel_speed *= scale;
    graph.tree_intra *= scale;
    graph.tree_inter *= scale;
  }
  // NCCL doubles the channels of its graph when it connects them.
  if (settings.max_channels > 0 && settings.max_channels < 2 * graph.channels) {
    const double most = settings.max_channels * nccl_caps(graph.generation).ring_ll128;
    graph.channels = std::max(1, std::min(graph.channels, settings.max_channels));
    graph.tree_channels = std::max(1, std::min(graph.tree_channels, settings.max_channels));
    graph.intra_total = std::min(graph.intra_total, most);
    if (graph.nodes > 1) {
      graph.net_total = std::min(graph.net_total, most);
      graph.net_rung = std::min(graph.net_rung, most);
    }
  }
}

}  // namespace

bool gpu_direct(const Cluster& cluster, Path apart) {
  const bool coherent =
      cluster.node.cpu == "arm" && apart <= Path::kNode && cluster.nccl.gdr_level >= Path::kTree;
  return coherent || apart <= cluster.nccl.gdr_level;
}

int cube_mesh_rings(int ranks) {
  static const std::array<int, 9> rings = [] {
    LinkCounts links(8, std::vector<int>(8, 0));
    for (int a = 0; a < 8; ++a) {
      for (int b = 0; b < 8; ++b) {
        links[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = cube_mesh_links(a, b);
      }
    }
    std::array<int, 9> counts = {};
    std::vector<int> members = {0};
    for (int n = 2; n <= 8; ++n) {
      members.push_back(n - 1);
      counts[static_cast<std::size_t>(n)] = ring_count(links, members);
    }
    return counts;
  }();
  return rings[static_cast<std::size_t>(std::clamp(ranks, 0, 8))];
}

namespace {

// How far apart the GPUs of a group are, by the node's counts.
Path widest_by_counts(const Node& node, std::int64_t span) {
  const bool one_a_socket = node.gpus <= node.sockets && span > node.gpus_per_pcie_switch;
  if (span <= std::max(2, node.gpus_per_pcie_switch) && !one_a_socket) {
    return Path::kTree;
  }
  return span <= std::max(1, node.gpus / std::max(1, node.sockets)) ? Path::kNode : Path::kSystem;
}

}  // namespace

IntraPath intra_path(const Cluster& cluster, int ranks, std::int64_t stride) {
  const Node& node = cluster.node;
  if (ranks <= 1) {
    return IntraPath::kNone;
  }
  const std::int64_t span = (ranks - 1) * stride + 1;  // GPUs from the first member to the last
  const GroupPath* placed = node.layout ? &path_of(*node.layout, ranks, stride) : nullptr;
  const bool linked = placed != nullptr && !node.layout->links.empty()
                          ? placed->linked
                          : node.fabric != Node::Fabric::kPcie && span <= node.nvlink_domain;
  if (linked && cluster.nccl.peer_to_peer) {
    return IntraPath::kNvlink;
  }
  const Path widest = placed != nullptr ? placed->widest : widest_by_counts(node, span);
  const bool peers = cluster.nccl.peer_to_peer;
  if (widest <= Path::kTree && peers) {
    return IntraPath::kPciePair;
  }
  if (node.peer_to_peer && peers) {
    return IntraPath::kPciePeer;
  }
  return widest <= Path::kNode ? IntraPath::kHostNode : IntraPath::kHostSystem;
}

double ring_rate(const Cluster& cluster, int ranks, IntraPath path, std::int64_t stride) {
  const Node& node = cluster.node;
  const double pcie = nccl_pcie_rate(cluster.gpu.pcie_generation) *
                      (cluster.gpu.pcie.value > 0.0 ? pcie_of_gpus(node) / cluster.gpu.pcie : 1.0);
  const double socket = node.socket_link.value / kGiga;
  const std::int64_t span = (std::max(ranks, 1) - 1) * stride + 1;
  const Path widest =
      node.layout ? path_of(*node.layout, ranks, stride).widest : widest_by_counts(node, span);
  switch (path) {
    case IntraPath::kNone:
      return 0.0;
    case IntraPath::kPciePair:
    case IntraPath::kHostNode:
      return pcie;
    case IntraPath::kPciePeer:
      return std::min(
          {pcie, kPeerAcrossBridges, widest == Path::kSystem ? kPeerOfSocket * socket : pcie});
    case IntraPath::kHostSystem:
      return std::min(pcie, socket);
    case IntraPath::kNvlink:
      break;
  }
  const double all_links =
      nccl_nvlink_share(cluster.gpu.compute_capability) * node.nvlink_per_gpu.value / kGiga;
  if (node.layout && !node.layout->links.empty()) {
    return all_links * path_of(*node.layout, ranks, stride).rings / std::max(1, node.nvlink_links);
  }
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

NcclGraph nccl_graph(const Cluster& cluster, const GroupShape& group) {
  NcclGraph graph;
  const Node& node = cluster.node;
  graph.ranks = static_cast<int>(std::min<std::int64_t>(group.ranks, 100'000'000));
  graph.ranks_per_node =
      static_cast<int>(std::min<std::int64_t>(group.ranks_per_node, group.ranks));
  graph.nodes = (graph.ranks + graph.ranks_per_node - 1) / graph.ranks_per_node;
  graph.generation = nccl_generation(cluster.gpu.compute_capability);
  graph.amd_cpu = node.cpu == "amd";
  graph.uneven = group.fewest_per_node > 0;
  graph.algorithms = cluster.nccl.algorithms;
  graph.protocols = cluster.nccl.protocols;
  graph.step_latency = node.nvlink_latency.value > 0.0 ? node.nvlink_latency / kUsualNvlink : 1.0;
  graph.path = intra_path(cluster, graph.ranks_per_node, group.stride);
  graph.intra_total = ring_rate(cluster, graph.ranks_per_node, graph.path, group.stride);
  graph.line_share = graph.path == IntraPath::kNvlink
                         ? nccl_nvlink_share(cluster.gpu.compute_capability)
                         : kPcieBooked;
  const bool between_switches =
      graph.path >= IntraPath::kPciePeer && graph.nodes > 1 && node.nics > 1;
  if (between_switches && cluster.nccl.cross_nic == 0) {
    // A ring that leaves by the adapter it came in by passes the bridges between switches twice.
    graph.intra_total /= 2.0;
  }
  if (graph.nodes == 1) {
    plan_single_node(graph, cluster);
  } else {
    // Groups that share a node share its NICs, and a group reaches at most the NICs of its own
    // GPUs.
    // Rings and trees pass through every node, so the node with fewest members sets the pace.
    const double members = group.fewest_per_node > 0 ? static_cast<double>(group.fewest_per_node)
                                                     : graph.ranks_per_node;
    const double own = static_cast<double>(node.nics) * members / node.gpus;
    const double share =
        static_cast<double>(node.nics) / static_cast<double>(group.concurrent_per_node);
    const double nics = std::min(static_cast<double>(node.nics),
                                 std::max(std::min(own, share), std::min(share, 1.0)));
    // What the members' GPUs take from their NICs crosses their own PCIe links.
    double pcie = members * pcie_carries(pcie_of_gpus(node)).value / kGiga;
    if (!gpu_direct(cluster, node.layout ? node.layout->nic_path : Path::kSwitch)) {
      pcie /= 2.0;  // each byte crosses the GPUs' side of PCIe to host memory, and comes back down
    }
    graph.net_line = std::max(nics, 1e-3) * node.nic.value / kGiga;
    graph.net_total = std::min(std::max(nics, 1e-3) * mean_adapter_rate(node) / kGiga, pcie);
    plan_network(graph, cluster, std::max(nics, 1e-3));
    graph.hop_extra_us = hop_extra_us(cluster);
    graph.node_stride = std::max(1.0, static_cast<double>(group.stride) / node.gpus);
    // Links above are narrower than the NICs by this; PCIe may have narrowed the traffic already.
    const double narrower = neighbour_slowdown(cluster, graph.node_stride, graph.nodes);
    graph.uplink_slowdown = std::max(1.0, narrower * graph.net_total / graph.net_line);
    const FarLatency far = far_latency(cluster, graph.node_stride, graph.nodes);
    graph.far_us = far.farthest.value * 1e6;
    graph.ring_far_us = far.mean.value * 1e6;
  }
  plan_nvls(graph, cluster);
  apply_channel_bounds(graph, cluster.nccl);
  return graph;
}

}  // namespace trireme::topologies
