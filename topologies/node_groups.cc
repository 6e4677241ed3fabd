#include "topologies/node_groups.h"

#include <algorithm>

#include "core/check.h"

namespace trireme::topologies {
namespace {

// What large products reach, the first thing that tells two cards apart.
double speed_of(const Gpu& gpu) {
  const auto found = gpu.peak_dense.find(Precision::kBf16);
  const auto half = gpu.peak_dense.find(Precision::kFp16);
  return found != gpu.peak_dense.end()  ? found->second.value
         : half != gpu.peak_dense.end() ? half->second.value
                                        : 0.0;
}

double network_rate(const Node& node) {
  return node.nics * node.nic.value / std::max(1, node.gpus);
}

// At whose pace a collective over two kinds of node runs.
Node narrower(const Node& a, const Node& b) {
  Node node = network_rate(b) < network_rate(a) ? b : a;
  node.layout = nullptr;  // no one place holds for both
  node.nics = node.nics * std::min(a.gpus, b.gpus) / std::max(1, node.gpus);
  node.nics = std::max(node.nics, std::min({1, a.nics, b.nics}));
  node.gpus = std::min(a.gpus, b.gpus);
  node.nvlink_domain = std::min(a.nvlink_domain, b.nvlink_domain);
  const bool wider = a.nvlink_domain <= b.nvlink_domain;
  node.fabric = (wider ? a : b).fabric;
  node.nvlink_links = std::min(a.nvlink_links, b.nvlink_links);
  node.nvlink_per_gpu = std::min(a.nvlink_per_gpu, b.nvlink_per_gpu);
  node.nvlink_latency = std::max(a.nvlink_latency, b.nvlink_latency);
  node.pcie_per_gpu = std::min(a.pcie_per_gpu, b.pcie_per_gpu);
  node.socket_link = std::min(a.socket_link, b.socket_link);
  node.host_memory = std::min(a.host_memory, b.host_memory);  // 0 where one does not say it
  node.peer_to_peer = a.peer_to_peer && b.peer_to_peer;
  node.sockets = std::max(a.sockets, b.sockets);
  node.gpus_per_pcie_switch = std::min(a.gpus_per_pcie_switch, b.gpus_per_pcie_switch);
  node.nic_latency = std::max(a.nic_latency, b.nic_latency);
  return node;
}

Gpu slower(const Gpu& a, const Gpu& b) {
  Gpu gpu = speed_of(b) < speed_of(a) ? b : a;
  std::erase_if(gpu.peak_dense, [&](const auto& peak) {
    return !a.peak_dense.contains(peak.first) || !b.peak_dense.contains(peak.first);
  });
  gpu.memory = std::min(a.memory, b.memory);
  gpu.nvlink_per_gpu = std::min(a.nvlink_per_gpu, b.nvlink_per_gpu);
  gpu.nvlink_links = std::min(a.nvlink_links, b.nvlink_links);
  gpu.pcie = std::min(a.pcie, b.pcie);
  gpu.pcie_generation = std::min(a.pcie_generation, b.pcie_generation);
  return gpu;
}

// The group that a node is of, and the nodes and ranks before that group.
struct Position {
  std::size_t group = 0;
  std::int64_t nodes_before = 0, ranks_before = 0;
};
template <typename Reaches>
Position position(const Cluster& cluster, Reaches reaches) {
  Position at;
  for (; at.group + 1 < cluster.groups.size(); ++at.group) {
    const NodeGroup& group = cluster.groups[at.group];
    const std::int64_t ranks = group.nodes * group.node.gpus;
    if (reaches(at.nodes_before + group.nodes, at.ranks_before + ranks)) {
      break;
    }
    at.nodes_before += group.nodes;
    at.ranks_before += ranks;
  }
  return at;
}
Position position_of_node(const Cluster& cluster, std::int64_t node) {
  return position(cluster, [node](std::int64_t nodes, std::int64_t) { return node < nodes; });
}

}  // namespace

void set_groups(Cluster& cluster, std::vector<NodeGroup> groups) {
  TRIREME_CHECK(!groups.empty() && groups.size() <= kNodeGroupsMost);
  cluster.gpu = groups.front().gpu;
  cluster.node = groups.front().node;
  cluster.nodes = cluster.gpus = 0;
  for (const NodeGroup& group : groups) {
    cluster.nodes += group.nodes;
    cluster.gpus += group.nodes * group.node.gpus;
    if (groups.size() > 1) {
      cluster.gpu = slower(cluster.gpu, group.gpu);
      cluster.node = narrower(cluster.node, group.node);
    }
  }
  cluster.viewed = -1;
  cluster.groups = groups.size() > 1 ? std::move(groups) : std::vector<NodeGroup>{};
}

Cluster viewed_from(const Cluster& cluster, std::size_t group) {
  Cluster view = cluster;
  if (has_unlike_nodes(cluster)) {
    view.gpu = cluster.groups.at(group).gpu;
    view.node = cluster.groups.at(group).node;
    view.viewed = static_cast<int>(group);
  }
  return view;
}

RankRange ranks_of_group(const Cluster& cluster, std::size_t group) {
  if (!has_unlike_nodes(cluster)) {
    return {0, cluster.gpus};
  }
  RankRange range;
  for (std::size_t g = 0; g <= group; ++g) {
    range.first = range.last;
    range.last += cluster.groups.at(g).nodes * cluster.groups[g].node.gpus;
  }
  return {std::min(range.first, cluster.gpus), std::min(range.last, cluster.gpus)};
}

RankRange viewed_ranks(const Cluster& cluster) {
  return cluster.viewed < 0 ? RankRange{0, cluster.gpus}
                            : ranks_of_group(cluster, static_cast<std::size_t>(cluster.viewed));
}

std::int64_t node_of_rank(const Cluster& cluster, std::int64_t rank) {
  if (!has_unlike_nodes(cluster)) {
    return rank / cluster.node.gpus;
  }
  const Position at =
      position(cluster, [rank](std::int64_t, std::int64_t ranks) { return rank < ranks; });
  return at.nodes_before + (rank - at.ranks_before) / cluster.groups[at.group].node.gpus;
}

std::int64_t first_rank_of(const Cluster& cluster, std::int64_t node) {
  if (!has_unlike_nodes(cluster)) {
    return node * cluster.node.gpus;
  }
  const Position at = position_of_node(cluster, node);
  return at.ranks_before + (node - at.nodes_before) * cluster.groups[at.group].node.gpus;
}

const Node& node_at(const Cluster& cluster, std::int64_t node) {
  return has_unlike_nodes(cluster) ? cluster.groups[position_of_node(cluster, node).group].node
                                   : cluster.node;
}

namespace {

// One text a run of groups with the same card.
std::string joined_names(const Cluster& cluster, bool counted) {
  std::vector<std::pair<std::string, std::int64_t>> cards;
  for (std::size_t g = 0; g < std::max<std::size_t>(1, cluster.groups.size()); ++g) {
    const RankRange ranks = ranks_of_group(cluster, g);
    const Gpu& gpu = has_unlike_nodes(cluster) ? cluster.groups[g].gpu : cluster.gpu;
    if (cards.empty() || cards.back().first != gpu.name) {
      cards.emplace_back(gpu.name, 0);
    }
    cards.back().second += ranks.last - ranks.first;
  }
  std::string text;
  for (const auto& [name, count] : cards) {
    text += text.empty() ? "" : " + ";
    text += counted ? std::to_string(count) + " x " + name : name;
  }
  return text;
}

}  // namespace

std::string cards_text(const Cluster& cluster) {
  return joined_names(cluster, true);
}

std::string card_names(const Cluster& cluster) {
  return joined_names(cluster, false);
}

double board_watts(const Cluster& cluster) {
  double watts = 0.0;
  for (std::size_t g = 0; g < std::max<std::size_t>(1, cluster.groups.size()); ++g) {
    const RankRange ranks = ranks_of_group(cluster, g);
    const Gpu& gpu = has_unlike_nodes(cluster) ? cluster.groups[g].gpu : cluster.gpu;
    watts += static_cast<double>(ranks.last - ranks.first) * gpu.power_watts;
  }
  return watts;
}

FlopPerSecond mean_peak(const Cluster& cluster, Precision precision) {
  FlopPerSecond sum;
  for (std::size_t g = 0; g < std::max<std::size_t>(1, cluster.groups.size()); ++g) {
    const RankRange ranks = ranks_of_group(cluster, g);
    const auto& peaks =
        (has_unlike_nodes(cluster) ? cluster.groups[g].gpu : cluster.gpu).peak_dense;
    const auto found = peaks.find(precision);
    if (found == peaks.end()) {
      return {};
    }
    sum += found->second * static_cast<double>(ranks.last - ranks.first);
  }
  return sum * (1.0 / static_cast<double>(std::max<std::int64_t>(1, cluster.gpus)));
}

}  // namespace trireme::topologies
