// A cluster as a page: its parts, a drawing of a node, routes and collectives.
#include <fmt/format.h>

#include <algorithm>

#include "tools/page_parts.h"
#include "tools/pages.h"
#include "tools/topo_answer.h"
#include "topologies/cluster_graph.h"
#include "topologies/network_tiers.h"
#include "topologies/node_groups.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

// "32", or "18, 18, 18, 8" where parts of the network are unlike.
std::string sizes_text(const std::vector<int>& listed, std::int64_t usual) {
  constexpr std::size_t kShown = 12;
  if (listed.empty()) {
    return std::to_string(usual);
  }
  const std::size_t shown = std::min(kShown, listed.size());
  return fmt::format(
      "{}{}", fmt::join(listed.begin(), listed.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < listed.size() ? ", ..." : "");
}

// Drawings of the first node of each kind for each kind of groups, and of the network.
void add_drawings(const TopologyAnswer& answer, Page& page) {
  const topologies::Cluster& cluster = answer.cluster;
  const std::vector<ShownGroups>& groups = answer.groups;
  const bool unlike = topologies::has_unlike_nodes(cluster);
  std::string drawings;
  std::int64_t node = 0;
  for (std::size_t kind = 0; kind < std::max<std::size_t>(1, cluster.groups.size()); ++kind) {
    for (std::size_t g = unlike ? groups.size() - 1 : 0; g < groups.size(); ++g) {
      drawings += node_svg(cluster, node, groups[g]);
    }
    node += unlike ? cluster.groups[kind].nodes : 0;
  }
  page.heading("One node, ranks coloured by group");
  page.text(
      "What hangs where, with what each link carries one way; links out of switches in their "
      "frames. What limits a ring over the groups is drawn in red.");
  page.raw("<div class=\"tiles\">" + drawings + "</div>\n");
  if (const std::string network = network_svg(cluster, groups.back()); !network.empty()) {
    page.heading("The network");
    page.raw("<div class=\"tiles\">" + network + "</div>\n");
  }
}

void add_route(const std::string& title, const topologies::Route& route, Page& page) {
  Table table{.head = {"link", "GB/s", "latency"}, .rows = {}};
  for (const topologies::Hop& hop : route.hops) {
    table.rows.push_back({hop.link, fmt::format("{:.1f}", gigabytes(hop.bandwidth)),
                          duration_text(hop.latency.value)});
  }
  page.heading(title);
  page.text(fmt::format("Bottleneck {} ({:.1f} GB/s); latency {}.", route.bottleneck_link,
                        gigabytes(route.bottleneck), duration_text(route.latency.value)));
  page.table(table);
}

// One kind of node; `which` names it where there are several.
void add_node_rows(const topologies::Node& node, const std::string& which, Table& table) {
  table.rows.push_back(
      {"node" + which, fmt::format("{} GPUs, {} sockets ({}), {} below one PCIe switch", node.gpus,
                                   node.sockets, node.cpu, node.gpus_per_pcie_switch)});
  table.rows.push_back({"fabric", fmt::format("{}, {} GPUs a domain, {:g} GB/s a GPU one way",
                                              topologies::fabric_name(node.fabric),
                                              node.nvlink_domain, gigabytes(node.nvlink_per_gpu))});
  table.rows.push_back(
      {"PCIe", fmt::format("{:g} GB/s a GPU one way, peer to peer {}", gigabytes(node.pcie_per_gpu),
                           node.peer_to_peer ? "yes" : "no")});
  table.rows.push_back(
      {"NICs", fmt::format("{} x {:g} Gbit/s", node.nics, gigabytes(node.nic) * 8.0)});
}

void add_node_rows(const topologies::Cluster& cluster, Table& table) {
  if (!topologies::has_unlike_nodes(cluster)) {
    add_node_rows(cluster.node, "", table);
  }
  std::int64_t first = 0;
  for (const topologies::NodeGroup& group : cluster.groups) {
    const std::int64_t last = first + group.nodes - 1;
    add_node_rows(group.node,
                  fmt::format(" {}{}: {}", first, last > first ? fmt::format("-{}", last) : "",
                              group.gpu.name),
                  table);
    first = last + 1;
  }
}

}  // namespace

Table cluster_table(const topologies::Cluster& cluster) {
  const topologies::FabricShape fabric = topologies::fabric_shape(cluster);
  Table table{.head = {"part", "what"}, .rows = {}, .text_columns = 2};
  add_node_rows(cluster, table);
  if (cluster.network.kind == topologies::Network::Kind::kNone) {
    table.rows.push_back({"network", "none"});
  } else if (!cluster.network.torus.empty()) {
    table.rows.push_back({"network", fmt::format("{}, torus of {} nodes", cluster.network.name,
                                                 fmt::join(cluster.network.torus, " x "))});
  } else {
    table.rows.push_back(
        {"network",
         fmt::format("{}, {}, units of {} nodes, {} leaves, {} spines, oversubscription {:g}:1",
                     cluster.network.name, topologies::network_kind_name(cluster.network.kind),
                     sizes_text(cluster.network.unit_nodes, cluster.network.nodes_per_unit),
                     fabric.units * fabric.leaves_per_unit, fabric.spines,
                     cluster.network.oversubscription)});
  }
  for (const topologies::NetworkLevel& level : cluster.network.levels) {
    table.rows.push_back({level.name, fmt::format("{} nodes, {:g} GB/s out, {} to the next",
                                                  sizes_text(level.part_nodes, level.nodes),
                                                  gigabytes(out_of(cluster, level)),
                                                  duration_text(level.latency.value))});
  }
  return table;
}

std::vector<ShownGroups> layout_groups(const topologies::Cluster& cluster) {
  const std::int64_t node = std::min<std::int64_t>(cluster.node.gpus, cluster.gpus);
  std::vector<ShownGroups> groups;
  for (const ShownGroups& one :
       {ShownGroups{"two neighbours", 2, 1}, ShownGroups{"a node", node, 1},
        ShownGroups{"one GPU of each node", cluster.gpus / node, node},
        ShownGroups{"all", cluster.gpus, 1}}) {
    const bool known = std::ranges::any_of(groups, [&one](const ShownGroups& other) {
      return other.ranks == one.ranks && other.stride == one.stride;
    });
    if (!known && one.ranks > 1 && one.ranks * one.stride <= cluster.gpus) {
      groups.push_back(one);
    }
  }
  return groups;
}

Page topology_page(const TopologyAnswer& answer) {
  const topologies::Cluster& cluster = answer.cluster;
  Page page(fmt::format("{}: {} in {} node{}", cluster.name, topologies::cards_text(cluster),
                        cluster.nodes, cluster.nodes == 1 ? "" : "s"));
  page.table(cluster_table(cluster));
  add_drawings(answer, page);
  BarChart speeds{.title = "Bandwidth between two GPUs, GB/s", .bars = {}};
  BarChart delays{.title = "Latency between two GPUs, microseconds", .bars = {}};
  for (std::size_t i = 0; i < answer.pairs.size(); ++i) {
    const topologies::Route& route = answer.routes[i];
    const std::string name = fmt::format("GPU {} to {}, {}", answer.pairs[i].from,
                                         answer.pairs[i].to, answer.pairs[i].what);
    speeds.bars.push_back({.name = name,
                           .text = fmt::format("{:.1f} GB/s, bottleneck {}",
                                               gigabytes(route.bottleneck), route.bottleneck_link),
                           .parts = {{"bandwidth", gigabytes(route.bottleneck)}}});
    delays.bars.push_back({.name = name,
                           .text = duration_text(route.latency.value),
                           .parts = {{"latency", 1e6 * route.latency.value}}});
  }
  page.bars(speeds);
  page.bars(delays);
  if (answer.bottleneck) {
    add_route("What limits a ring over groups of " + answer.group, *answer.bottleneck, page);
  }
  for (std::size_t i = 0; i < answer.pairs.size(); ++i) {
    add_route(fmt::format("GPU {} to GPU {}: {}", answer.pairs[i].from, answer.pairs[i].to,
                          answer.pairs[i].what),
              answer.routes[i], page);
  }
  page.heading("Where the numbers come from");
  page.text(fmt::format("GPU: {}. Network: {}.", cluster.gpu.source,
                        cluster.network.name.empty() ? "none" : cluster.network.name));
  return page;
}

}  // namespace trireme::tools
