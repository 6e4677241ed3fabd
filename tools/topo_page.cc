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

// "32", or "18, 18, 18, 8" where units are unlike.
std::string unit_sizes(const topologies::Network& network) {
  constexpr std::size_t kShown = 12;
  if (network.unit_nodes.empty()) {
    return std::to_string(network.nodes_per_unit);
  }
  const std::size_t shown = std::min(kShown, network.unit_nodes.size());
  return fmt::format(
      "{}{}",
      fmt::join(network.unit_nodes.begin(),
                network.unit_nodes.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < network.unit_nodes.size() ? ", ..." : "");
}

// A box with a name in it.
std::string box(std::int64_t x, std::int64_t y, std::int64_t width, const char* colour,
                const std::string& name, const std::string& hover) {
  return fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"24\" rx=\"4\" "
      "fill=\"{}\"><title>{}</title></rect>"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
      x, y, width, colour, html_text(hover), x + width / 2, y + 16, html_text(name));
}

// One node: what joins its GPUs above them, its adapters below.
std::string node_svg(const topologies::Cluster& cluster) {
  constexpr std::int64_t kAcross = 8;
  constexpr std::int64_t kWidth = 58;
  const topologies::Node& node = cluster.node;
  const std::int64_t gpus = std::min<std::int64_t>(node.gpus, cluster.gpus);
  const std::int64_t across = std::min(gpus, kAcross);
  const std::int64_t wide = std::max<std::int64_t>(across * kWidth, 240);
  const std::string fabric = topologies::fabric_name(node.fabric);
  const double rate = gigabytes(node.nvlink_domain > 1 ? node.nvlink_per_gpu : node.pcie_per_gpu);
  std::string inside =
      box(8, 8, wide - 6, "#aa3377", fmt::format("{}, {:g} GB/s a GPU", fabric, rate),
          fmt::format("{} GPUs a domain", node.nvlink_domain));
  std::int64_t y = 44;
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
    inside += box(8 + gpu % kAcross * kWidth, y + gpu / kAcross * 30, kWidth - 6, "#4477aa",
                  fmt::format("GPU {}", gpu), cluster.gpu.name);
  }
  y += (gpus + kAcross - 1) / kAcross * 30 + 6;
  for (std::int64_t nic = 0; nic < node.nics; ++nic) {
    inside += box(8 + nic % kAcross * kWidth, y + nic / kAcross * 30, kWidth - 6, "#228833",
                  fmt::format("NIC {}", nic), fmt::format("{:g} Gbit/s", 8 * gigabytes(node.nic)));
  }
  y += (node.nics + kAcross - 1) / kAcross * 30;
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"one "
      "node\">"
      "<rect class=\"node\" x=\"1\" y=\"1\" width=\"{2}\" height=\"{3}\" rx=\"6\"/>{4}</svg>\n",
      wide + 12, y + 4, wide + 8, y + 1, inside);
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
                     unit_sizes(cluster.network), fabric.units * fabric.leaves_per_unit,
                     fabric.spines, cluster.network.oversubscription)});
  }
  for (const topologies::NetworkLevel& level : cluster.network.levels) {
    table.rows.push_back({level.name, fmt::format("{} nodes, {:g} GB/s out, {} to the next",
                                                  level.nodes, gigabytes(out_of(cluster, level)),
                                                  duration_text(level.latency.value))});
  }
  return table;
}

Page topology_page(const TopologyAnswer& answer) {
  const topologies::Cluster& cluster = answer.cluster;
  Page page(fmt::format("{}: {} in {} node{}", cluster.name, topologies::cards_text(cluster),
                        cluster.nodes, cluster.nodes == 1 ? "" : "s"));
  page.table(cluster_table(cluster));
  page.heading("One node");
  page.raw("<div class=\"tiles\">" + node_svg(cluster) + "</div>\n");
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
