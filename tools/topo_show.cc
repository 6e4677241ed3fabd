// `trireme topo show`: devices and links of a cluster, and routes between its GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/options.h"
#include "tools/pages.h"
#include "tools/report.h"
#include "tools/report_option.h"
#include "tools/table.h"
#include "tools/topo_answer.h"
#include "tools/topo_commands.h"
#include "topologies/cluster_graph.h"
#include "topologies/drawing.h"
#include "topologies/network_tiers.h"
#include "topologies/node_groups.h"
#include "topologies/routes.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

struct TopoShowArguments {
  std::string cluster;
  std::optional<std::int64_t> gpus;
  std::string pair;   // "0,9"
  std::string group;  // "16" or "16,8": degree and stride
  std::int64_t seed = 0;
  std::string report;
  bool json = false, dot = false;
};

Json route_json(const topologies::Route& route) {
  Json hops = Json::array();
  for (const topologies::Hop& hop : route.hops) {
    hops.push_back({{"link", hop.link},
                    {"gbytes_per_second", gigabytes(hop.bandwidth)},
                    {"latency_seconds", hop.latency.value}});
  }
  return {{"bottleneck_gbytes_per_second", gigabytes(route.bottleneck)},
          {"bottleneck_link", route.bottleneck_link},
          {"latency_seconds", route.latency.value},
          {"hops", hops}};
}

using GroupPair = ShownPair;

// One pair of each kind that differs: neighbours, the node's ends, one rail, two rails, two units.
std::vector<GroupPair> telling_pairs(const topologies::Cluster& cluster) {
  const std::int64_t node = topologies::node_at(cluster, 0).gpus;
  const topologies::Network& network = cluster.network;
  const std::int64_t unit =
      node * (network.unit_nodes.empty() ? network.nodes_per_unit : network.unit_nodes.front());
  std::vector<GroupPair> pairs;
  const auto add = [&](const std::string& what, std::int64_t to) {
    const bool known = std::ranges::find(pairs, to, &GroupPair::to) != pairs.end();
    if (to > 0 && to < cluster.gpus && !known) {
      pairs.push_back({what, 0, to});
    }
  };
  add("neighbours in the node", 1);
  add("ends of the node", std::min(node, cluster.gpus) - 1);
  add("same place in the next node", node);
  add("another place in the next node", node + 1);
  add("same place in another unit", unit);
  for (const topologies::NetworkLevel& level : network.levels) {
    add("same place in another " + level.name,
        topologies::first_rank_of(cluster, topologies::part_size(level, 0)));
  }
  for (std::size_t g = 1; g < cluster.groups.size(); ++g) {
    add("the first GPU of other nodes", topologies::ranks_of_group(cluster, g).first);
  }
  return pairs;
}

Json summary_json(const topologies::Cluster& cluster) {
  const topologies::FabricShape fabric = topologies::fabric_shape(cluster);
  Json description = topologies::cluster_to_json(cluster);
  return {{"cluster", cluster.name},
          {"gpus", cluster.gpus},
          {"nodes", cluster.nodes},
          {"gpu", topologies::card_names(cluster)},
          {"topology", description},
          {"fabric",
           {{"units", fabric.units},
            {"leaves", fabric.units * fabric.leaves_per_unit},
            {"spines", fabric.spines},
            {"leaf_to_spine_gbytes_per_second", gigabytes(fabric.leaf_to_spine)},
            {"oversubscription", cluster.network.oversubscription}}}};
}

void print_summary(const Console& console, const topologies::Cluster& cluster) {
  print_heading(console,
                fmt::format("{}: {} in {} node{}", cluster.name, topologies::cards_text(cluster),
                            cluster.nodes, cluster.nodes == 1 ? "" : "s"));
  print_table(console, cluster_table(cluster));
}

// The first node of each kind.
void print_nodes(const Console& console, const topologies::Cluster& cluster) {
  std::int64_t node = 0;
  for (std::size_t g = 0; g < std::max<std::size_t>(1, cluster.groups.size()); ++g) {
    fmt::print(console.out, "\n{}", topologies::node_drawing(cluster, node));
    node += topologies::has_unlike_nodes(cluster) ? cluster.groups[g].nodes : 0;
  }
}

// What limits a ring over each kind of group that a layout makes.
void print_limits(const Console& console, const topologies::Cluster& cluster) {
  Table table{.head = {"ring over", "ranks", "GB/s", "limited by"}, .rows = {}};
  for (const ShownGroups& groups : layout_groups(cluster)) {
    const topologies::Route limit = topologies::group_bottleneck(
        cluster, topologies::group_shape(cluster, groups.ranks, groups.stride));
    table.rows.push_back({groups.what, std::to_string(groups.ranks),
                          fmt::format("{:.1f}", gigabytes(limit.bottleneck)),
                          limit.bottleneck_link});
  }
  if (!table.rows.empty()) {
    fmt::print(console.out, "\n");
    print_table(console, table);
  }
}

void print_route(const Console& console, const std::string& title, const topologies::Route& route) {
  print_heading(console, title);
  Table table{.head = {"link", "GB/s", "latency"}, .rows = {}};
  for (const topologies::Hop& hop : route.hops) {
    table.rows.push_back({hop.link, fmt::format("{:.1f}", gigabytes(hop.bandwidth)),
                          duration_text(hop.latency.value)});
  }
  print_table(console, table);
  fmt::print(console.out, "bottleneck: {} ({:.1f} GB/s); latency {}\n", route.bottleneck_link,
             gigabytes(route.bottleneck), duration_text(route.latency.value));
}

std::vector<std::int64_t> two_counts(const std::string& text, const std::string& where,
                                     std::int64_t second) {
  std::vector<std::int64_t> counts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    counts.push_back(parse_count(text.substr(begin, end - begin), where, 0));
    begin = end + 1;
  }
  if (counts.size() == 1 && second > 0) {
    counts.push_back(second);
  }
  if (counts.size() != 2) {
    throw Error(where, "'" + text + "' should be two numbers, such as 0,9");
  }
  return counts;
}

// The groups asked for, or each kind that a layout makes; of one GPU, itself.
std::vector<ShownGroups> groups_to_draw(const topologies::Cluster& cluster,
                                        const std::optional<ShownGroups>& asked) {
  std::vector<ShownGroups> groups = asked ? std::vector{*asked} : layout_groups(cluster);
  if (groups.empty()) {
    groups.push_back({"one GPU", 1, 1});
  }
  return groups;
}

int run(const TopoShowArguments& options, Console& console) {
  topologies::Cluster cluster = topologies::load_cluster(options.cluster);
  if (options.gpus) {
    cluster = topologies::narrowed(std::move(cluster), *options.gpus);
  }
  if (options.dot && !options.report.empty()) {
    throw Error("--report", "is not written beside --dot; one of them would be right");
  }
  if (options.dot) {
    fmt::print(console.out, "{}", topologies::dot_text(cluster));
    return kDone;
  }
  const auto seed = static_cast<std::uint64_t>(options.seed);
  std::vector<GroupPair> pairs = telling_pairs(cluster);
  if (!options.pair.empty()) {
    const auto ends = two_counts(options.pair, "--pair", 0);
    pairs = {{"asked for", ends[0], ends[1]}};
  }
  std::optional<topologies::Route> bottleneck;
  std::optional<ShownGroups> asked;
  if (!options.group.empty()) {
    const auto group = two_counts(options.group, "--group", 1);
    if (group[0] < 1 || group[1] < 1 || group[0] > cluster.gpus / group[1]) {
      throw Error("--group", fmt::format("{} members {} apart do not fit on {} GPUs", group[0],
                                         group[1], cluster.gpus));
    }
    bottleneck =
        topologies::group_bottleneck(cluster, topologies::group_shape(cluster, group[0], group[1]));
    asked = ShownGroups{fmt::format("groups of {}", options.group), group[0], group[1]};
  }
  std::vector<topologies::Route> routes;
  routes.reserve(pairs.size());
  for (const GroupPair& pair : pairs) {
    routes.push_back(topologies::route(cluster, pair.from, pair.to, seed));
  }
  if (!options.report.empty()) {
    write_page(options.report, topology_page({cluster, pairs, routes, bottleneck, options.group,
                                              groups_to_draw(cluster, asked)}));
  }
  if (options.json) {
    Json json = summary_json(cluster);
    json["pairs"] = Json::array();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      Json entry = {{"what", pairs[i].what}, {"from", pairs[i].from}, {"to", pairs[i].to}};
      entry.update(route_json(routes[i]));
      json["pairs"].push_back(entry);
    }
    if (bottleneck) {
      json["group"] = route_json(*bottleneck);
    }
    print_json(console, "topology_report", json);
    return kDone;
  }
  print_summary(console, cluster);
  print_nodes(console, cluster);
  print_limits(console, cluster);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    print_route(console,
                fmt::format("GPU {} to GPU {}: {}", pairs[i].from, pairs[i].to, pairs[i].what),
                routes[i]);
  }
  if (bottleneck) {
    print_route(console, "ring over groups of " + options.group, *bottleneck);
  }
  return kDone;
}

}  // namespace

void add_topo_show_command(Command& topo, Program& program) {
  auto options = std::make_shared<TopoShowArguments>();
  Command* command =
      add_command(topo, program, "show", "shows a cluster, routes in it, and what limits a group",
                  "trireme topo show --cluster dgx-h100x64 --pair 0,9 --group 64,8");
  command
      ->add_option("--cluster,cluster", options->cluster,
                   "a preset with a node count, or a topology file")
      ->type_name("C")
      ->required();
  add_count_option(*command, "--gpus", options->gpus, "only the first N GPUs");
  command->add_option("--pair", options->pair,
                      "the route between two GPUs, numbered node by node from 0: A,B");
  command->add_option("--group", options->group,
                      "what limits a ring over groups of N members, M apart: N,M");
  command->add_option("--seed", options->seed, "of the picks among equal spines");
  add_report_option(*command, options->report);
  Option* dot = command->add_flag("--dot", options->dot,
                                  "devices and links of the first and the last node for Graphviz");
  command->add_flag("--json", options->json, "JSON on stdout")->excludes(dot);
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
