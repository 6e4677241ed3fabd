// Which GPUs are in use, and how the groups of one axis lie on the nodes.
#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "core/error.h"
#include "topologies/cluster.h"

namespace trireme::topologies {
namespace {

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// The most nodes that one group of the axis touches. Group k of a block starts at rank k * block +
// j, j < stride.
std::int64_t nodes_spanned(std::int64_t degree, std::int64_t stride, std::int64_t node_gpus) {
  const std::int64_t block = degree * stride;
  const std::int64_t step =
      std::gcd(block, node_gpus);  // block starts fall on multiples of this within a node
  std::int64_t most = 1;
  for (std::int64_t start = 0; start < node_gpus; start += step) {
    for (std::int64_t j = 0; j < std::min(stride, node_gpus); ++j) {
      const std::int64_t first = start + j;
      if (stride >= node_gpus) {
        return degree;
      }
      most = std::max(most, (first + (degree - 1) * stride) / node_gpus - first / node_gpus + 1);
    }
  }
  return most;
}

}  // namespace

Cluster with_gpus_per_node(Cluster cluster, int gpus) {
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
  node.gpus = gpus;
  cluster.gpus = cluster.nodes * gpus;
  return cluster;
}

Cluster narrowed(Cluster cluster, std::int64_t gpus) {
  if (gpus < 1 || gpus > cluster.gpus) {
    throw Error("--gpus", std::to_string(gpus) + " asked for, but " + cluster.name + " has " +
                              std::to_string(cluster.gpus) + " GPUs");
  }
  cluster.gpus = gpus;
  cluster.nodes = ceil_divide(gpus, cluster.node.gpus);
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
  if (period <= node_gpus && node_gpus % period == 0) {
    shape.ranks_per_node = degree;
  } else if (stride < node_gpus) {
    shape.ranks_per_node = ceil_divide(degree, nodes_spanned(degree, stride, node_gpus));
  }
  const std::int64_t in_use = std::min(node_gpus, cluster.gpus);
  shape.concurrent_per_node = std::max<std::int64_t>(1, in_use / shape.ranks_per_node);
  return shape;
}

}  // namespace trireme::topologies
