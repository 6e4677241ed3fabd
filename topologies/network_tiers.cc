#include "topologies/network_tiers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "topologies/cluster_graph.h"
#include "topologies/node_groups.h"

namespace trireme::topologies {
namespace {

// Groups of a dragonfly have a link to each other. Where all of a group sends to one other, what
// the link between the two does not carry goes by way of a third group (Valiant; adaptive routing
// of Slingshot): m + 2 v <= C with the direct m = C / (G - 1) leaves (m + v) = C G / (2 (G - 1)).
double dragonfly_detour(double groups) {
  return groups > 1.0 ? 2.0 * (groups - 1.0) / groups : 1.0;
}

// All NICs of the nodes below.
double nics_below(const Cluster& cluster, const NetworkLevel& level) {
  return cluster.node.nics * cluster.node.nic.value * static_cast<double>(level.nodes);
}

double oversubscription_of(const Cluster& cluster, const NetworkLevel& level) {
  return level.out.value > 0.0 ? nics_below(cluster, level) / level.out.value
                               : level.oversubscription;
}

// Calls `visit` with the nodes of a tier, its oversubscription, detour and latency.
template <typename Visit>
void for_each_tier(const Cluster& cluster, Visit visit) {
  const Network& network = cluster.network;
  if (network.kind == Network::Kind::kNone || network.kind == Network::Kind::kTorus) {
    return;
  }
  if (const std::int64_t units = unit_count(cluster); units > 1) {
    const bool dragonfly = network.kind == Network::Kind::kDragonfly;
    visit(least_unit(network), network.oversubscription,
          dragonfly ? dragonfly_detour(static_cast<double>(units)) : 1.0, Seconds(0.0));
  }
  for (const NetworkLevel& level : network.levels) {
    if (has_several(cluster, level)) {
      visit(least_part(level), oversubscription_of(cluster, level), 1.0, level.latency);
    }
  }
}

// Whether some group of `nodes` nodes, `stride` apart, reaches beyond a part of `part` nodes.
bool crosses(std::int64_t part, double stride, int nodes) {
  const auto span = static_cast<std::int64_t>(std::ceil(stride * nodes));
  return span > part || part % std::max<std::int64_t>(span, 1) != 0;
}

bool is_torus(const Cluster& cluster) {
  return cluster.network.kind == Network::Kind::kTorus;
}

}  // namespace

BytesPerSecond out_of(const Cluster& cluster, const NetworkLevel& level) {
  return level.out.value > 0.0
             ? level.out
             : BytesPerSecond(nics_below(cluster, level) / level.oversubscription);
}

std::vector<NetworkTier> network_tiers(const Cluster& cluster) {
  std::vector<NetworkTier> tiers;
  for_each_tier(cluster, [&](std::int64_t nodes, double over, double detour, Seconds latency) {
    tiers.push_back({"unit", nodes, over, detour, latency});
  });
  std::size_t named = tiers.size();
  for (auto level = cluster.network.levels.rbegin(); level != cluster.network.levels.rend();
       ++level) {
    if (named > 0 && has_several(cluster, *level)) {
      tiers[--named].name = level->name;
    }
  }
  return tiers;
}

namespace {

// The level that a tier is; null: the units.
const NetworkLevel* level_of(const Cluster& cluster, std::size_t tier) {
  std::size_t at = unit_count(cluster) > 1 ? 1 : 0;
  if (at == 1 && tier == 0) {
    return nullptr;
  }
  for (const NetworkLevel& level : cluster.network.levels) {
    if (has_several(cluster, level) && at++ == tier) {
      return &level;
    }
  }
  return nullptr;
}

}  // namespace

std::int64_t part_of_node(const Cluster& cluster, std::size_t tier, std::int64_t node) {
  const NetworkLevel* level = level_of(cluster, tier);
  return level == nullptr ? unit_of_node(cluster.network, node) : part_of_node(*level, node);
}

std::int64_t part_size(const Cluster& cluster, std::size_t tier, std::int64_t part) {
  const NetworkLevel* level = level_of(cluster, tier);
  return level == nullptr ? unit_size(cluster.network, part) : part_size(*level, part);
}

BytesPerSecond uplinks_from(const Cluster& cluster, std::size_t tier, std::int64_t first) {
  const std::int64_t nodes = part_size(cluster, tier, part_of_node(cluster, tier, first));
  const double over = std::max(network_tiers(cluster)[tier].oversubscription, 1e-9);
  if (!has_unlike_nodes(cluster)) {
    return cluster.node.nic *
           (static_cast<double>(cluster.node.nics) * static_cast<double>(nodes) / over);
  }
  BytesPerSecond sum;
  for (std::int64_t node = first; node < std::min(first + nodes, cluster.nodes); ++node) {
    const Node& shape = node_at(cluster, node);
    sum += shape.nic * (static_cast<double>(shape.nics) / over);
  }
  return sum;
}

double neighbour_slowdown(const Cluster& cluster, double node_stride, int nodes) {
  double slowdown = 1.0;
  if (nodes <= 1) {
    return slowdown;
  }
  if (is_torus(cluster)) {
    return std::max(1, torus_hops(cluster.network, 0, std::llround(node_stride)));
  }
  for_each_tier(cluster, [&](std::int64_t part, double over, double detour, Seconds) {
    if (crosses(part, node_stride, nodes)) {
      // Hops between neighbours leave a part in this share of cases.
      const double leaving = std::min(1.0, node_stride / static_cast<double>(part));
      slowdown = std::max(slowdown, over * detour * leaving);
    }
  });
  return slowdown;
}

double spread_slowdown(const Cluster& cluster, int nodes) {
  double slowdown = 1.0;
  if (nodes <= 1) {
    return slowdown;
  }
  if (is_torus(cluster)) {
    return std::max(1.0, mean_torus_hops(cluster.network));
  }
  for_each_tier(cluster, [&](std::int64_t part, double over, double, Seconds) {
    // Traffic leaves for most destinations, so the links out carry nearly all of it.
    const std::int64_t whole_parts = (cluster.nodes + part - 1) / part;
    const auto parts = static_cast<double>(whole_parts);
    slowdown = std::max(slowdown, over * (1.0 - 1.0 / std::min<double>(parts, nodes)));
  });
  return slowdown;
}

FarLatency far_latency(const Cluster& cluster, double node_stride, int nodes) {
  FarLatency far;
  if (nodes <= 1) {
    return far;
  }
  if (is_torus(cluster)) {
    const Seconds hop = cluster.network.switch_latency;
    const double hops = torus_hops(cluster.network, 0, std::llround(node_stride));
    return {hop * std::max(0.0, mean_torus_hops(cluster.network) - 1.0),
            hop * std::max(0.0, hops - 1.0)};
  }
  for_each_tier(cluster, [&](std::int64_t part, double, double, Seconds latency) {
    if (crosses(part, node_stride, nodes)) {
      far.farthest += latency;
      far.mean += latency * std::min(1.0, node_stride / static_cast<double>(part));
    }
  });
  return far;
}

int torus_hops(const Network& network, std::int64_t from, std::int64_t to) {
  std::int64_t hops = 0;
  for (const int size : network.torus) {
    const std::int64_t apart = std::abs(from % size - to % size);
    hops += std::min(apart, size - apart);
    from /= size;
    to /= size;
  }
  return static_cast<int>(hops);
}

double mean_torus_hops(const Network& network) {
  double mean = 0.0;
  double nodes = 1.0;
  for (const int size : network.torus) {
    // 0, 1, 2, ..., 2, 1 hops to the places along a ring.
    const int shorter = size / 2;
    mean += static_cast<double>(shorter) * (size - shorter) / size;
    nodes *= size;
  }
  return nodes > 1.0 ? mean * nodes / (nodes - 1.0) : 0.0;  // not to itself
}

}  // namespace trireme::topologies
