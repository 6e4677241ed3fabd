// Which GPUs are in use, and how the groups of one axis lie on the nodes.
#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "core/error.h"
#include "topologies/cluster.h"
#include "topologies/node_groups.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {
namespace {

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// How the groups of an axis lie on the nodes, at worst.
struct Spread {
  std::int64_t nodes = 1;   // that one group touches
  std::int64_t fewest = 0;  // members in the node with fewest, of the groups that touch several
};

// Group k starts at rank k * period + j; only groups that the cluster's GPUs hold count.
Spread spread_of(const Cluster& cluster, std::int64_t degree, std::int64_t stride,
                 std::int64_t period) {
  const std::int64_t node = cluster.node.gpus;
  const std::int64_t length = (degree - 1) * stride;  // from the first member to the last
  const std::int64_t repeats = node / std::gcd(period, node);
  const std::int64_t blocks = std::clamp<std::int64_t>(cluster.gpus / period, 1, repeats);
  const std::int64_t starts = std::min({stride, std::max<std::int64_t>(period - length, 1), node});
  Spread spread{1, degree};
  for (std::int64_t k = 0; k < blocks; ++k) {
    for (std::int64_t j = 0; j < starts; ++j) {
      const std::int64_t first = (k * period + j) % node;
      const std::int64_t last = first + length;
      const std::int64_t nodes = last / node + 1;
      if (nodes > 1) {
        const std::int64_t in_first = (node - 1 - first) / stride + 1;
        const std::int64_t in_last = last % node / stride + 1;
        spread.fewest = std::min({spread.fewest, in_first, in_last});
      }
      spread.nodes = std::max(spread.nodes, nodes);
    }
  }
  return spread;
}

// The same where nodes are unlike: every group with a member among the ranks that are viewed.
Spread spread_over_unlike_nodes(const Cluster& cluster, std::int64_t degree, std::int64_t stride,
                                std::int64_t period) {
  const RankRange viewed = viewed_ranks(cluster);
  const std::int64_t length = (degree - 1) * stride;
  const std::int64_t starts = std::min(stride, std::max<std::int64_t>(period - length, 1));
  Spread spread{1, degree};
  const std::int64_t before = std::max<std::int64_t>(viewed.first - length, 0) / period;
  for (std::int64_t block = before * period; block < viewed.last; block += period) {
    for (std::int64_t first = block; first < block + starts; ++first) {
      if (first + length >= cluster.gpus || first >= viewed.last || first + length < viewed.first) {
        continue;
      }
      std::int64_t nodes = 0;
      std::int64_t fewest = degree;
      for (std::int64_t i = 0; i < degree; ++nodes) {
        const std::int64_t node = node_of_rank(cluster, first + i * stride);
        const std::int64_t last = first_rank_of(cluster, node) + node_at(cluster, node).gpus - 1;
        const std::int64_t here = std::min(degree - i, (last - first - i * stride) / stride + 1);
        fewest = std::min(fewest, here);
        i += here;
      }
      spread.nodes = std::max(spread.nodes, nodes);
      spread.fewest = nodes > 1 ? std::min(spread.fewest, fewest) : spread.fewest;
    }
  }
  return spread;
}

Cluster with_gpus_in_each_group(Cluster cluster, int gpus) {
  std::vector<NodeGroup> groups = cluster.groups;
  for (NodeGroup& group : groups) {
    Cluster one = cluster;
    one.groups.clear();
    one.node = group.node;
    group.node = with_gpus_per_node(std::move(one), gpus).node;
  }
  set_groups(cluster, std::move(groups));
  return cluster;
}

// Whole groups, then nodes, then GPUs of the last node: which stays a node of its size.
Cluster narrowed_groups(Cluster cluster, std::int64_t gpus) {
  std::vector<NodeGroup> groups;
  std::int64_t left = gpus;
  for (NodeGroup group : cluster.groups) {
    if (left > 0) {
      group.nodes = std::min(group.nodes, ceil_divide(left, group.node.gpus));
      left -= group.nodes * group.node.gpus;
      groups.push_back(std::move(group));
    }
  }
  set_groups(cluster, std::move(groups));
  if (!has_unlike_nodes(cluster)) {
    return narrowed(std::move(cluster), gpus);
  }
  cluster.gpus = gpus;
  return cluster;
}

}  // namespace

Cluster with_gpus_per_node(Cluster cluster, int gpus) {
  if (has_unlike_nodes(cluster)) {
    return with_gpus_in_each_group(std::move(cluster), gpus);
  }
  Node& node = cluster.node;
  if (gpus < 1 || gpus > node.gpus) {
    throw Error("--gpus-per-node", std::to_string(gpus) + " asked for, but a node of " +
                                       cluster.name + " has " + std::to_string(node.gpus));
  }
  node.nics = node.nics == 0 ? 0 : std::max(1, node.nics * gpus / node.gpus);
  if (node.fabric == Node::Fabric::kMesh && gpus < node.nvlink_domain) {
    // The links to the GPUs that are left out go with them.
    const int peers = node.nvlink_domain - 1;
    node.nvlink_per_gpu = node.nvlink_per_gpu * (gpus - 1) / peers;
    node.nvlink_links = std::max(1, node.nvlink_links * (gpus - 1) / peers);
  }
  node.nvlink_domain = std::min(node.nvlink_domain, gpus);
  node.host_memory = Bytes(node.host_memory.value / node.gpus * gpus);
  node.gpus = gpus;
  if (node.layout) {
    node.layout = cropped(*node.layout, gpus, node.nics);
  }
  cluster.gpus = cluster.nodes * gpus;
  return cluster;
}

// Most GPUs of one server; a node with more is a rack that shares an NVLink domain.
constexpr int kServerGpus = 16;

Cluster narrowed(Cluster cluster, std::int64_t gpus) {
  if (gpus < 1 || gpus > cluster.gpus) {
    throw Error("--gpus", std::to_string(gpus) + " asked for, but " + cluster.name + " has " +
                              std::to_string(cluster.gpus) + " GPUs");
  }
  if (has_unlike_nodes(cluster)) {
    return narrowed_groups(std::move(cluster), gpus);
  }
  const std::int64_t nodes = ceil_divide(gpus, cluster.node.gpus);
  if (cluster.node.gpus > kServerGpus && nodes > 1 && gpus % nodes == 0) {
    cluster = with_gpus_per_node(std::move(cluster), static_cast<int>(gpus / nodes));
  }
  cluster.gpus = gpus;
  cluster.nodes = nodes;
  if (cluster.node.layout && gpus < cluster.node.gpus) {
    cluster.node.layout = cropped(*cluster.node.layout, static_cast<int>(gpus), cluster.node.nics);
  }
  return cluster;
}

GroupShape group_shape(const Cluster& cluster, std::int64_t degree, std::int64_t stride) {
  return group_shape(cluster, degree, stride, degree * stride);
}

GroupShape group_shape(const Cluster& cluster, std::int64_t degree, std::int64_t stride,
                       std::int64_t period) {
  TRIREME_CHECK(degree >= 1);
  TRIREME_CHECK(stride >= 1);
  const std::int64_t node_gpus = cluster.node.gpus;
  GroupShape shape{
      .ranks = degree, .ranks_per_node = 1, .stride = stride, .concurrent_per_node = 1};
  if (stride < node_gpus || has_unlike_nodes(cluster)) {
    const Spread spread = has_unlike_nodes(cluster)
                              ? spread_over_unlike_nodes(cluster, degree, stride, period)
                              : spread_of(cluster, degree, stride, period);
    // The narrowest node has no more; of larger ones a part is counted as a node of its size.
    shape.ranks_per_node = std::min(ceil_divide(degree, spread.nodes), node_gpus);
    shape.fewest_per_node = spread.fewest < shape.ranks_per_node ? spread.fewest : 0;
  }
  const std::int64_t in_use = std::min(node_gpus, cluster.gpus);
  shape.concurrent_per_node = std::max<std::int64_t>(1, in_use / shape.ranks_per_node);
  return shape;
}

}  // namespace trireme::topologies
