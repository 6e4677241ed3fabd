// What `topo show` found out about a cluster, for its text and its page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/table.h"
#include "tools/topo_svg.h"
#include "topologies/cluster.h"
#include "topologies/routes.h"

namespace trireme::tools {

inline double gigabytes(BytesPerSecond rate) {
  return rate.value * 1e-9;
}

struct ShownPair {
  std::string what;
  std::int64_t from = 0;
  std::int64_t to = 0;
};
struct TopologyAnswer {
  topologies::Cluster cluster;
  std::vector<ShownPair> pairs;
  std::vector<topologies::Route> routes;        // of each pair
  std::optional<topologies::Route> bottleneck;  // of the group that was asked for
  std::string group;                            // "16,8": members and how far apart
  std::vector<ShownGroups> groups;              // those to draw, at least one
};

// Each kind of group that a layout makes, of at least two ranks.
std::vector<ShownGroups> layout_groups(const topologies::Cluster& cluster);

// Node, fabric, PCIe, NICs and network, a row each.
Table cluster_table(const topologies::Cluster& cluster);

}  // namespace trireme::tools
