#include <algorithm>
#include <set>

#include "core/error.h"
#include "topologies/compose.h"
#include "topologies/import/complete.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

const Network& named_network(const std::string& name) {
  const auto found = std::ranges::find(network_presets(), name, &Network::name);
  if (found == network_presets().end()) {
    std::string known;
    for (const Network& network : network_presets()) {
      known += (known.empty() ? "" : ", ") + network.name;
    }
    throw Error("--network", "'" + name + "' is not a known network; use one of " + known);
  }
  return *found;
}

}  // namespace

void set_network(Imported& imported, const ImportOptions& options, const Cluster& usual,
                 const std::string& family) {
  Cluster& cluster = imported.cluster;
  if (!options.network.empty()) {
    cluster.network = named_network(options.network);
  } else if (!family.empty() && cluster.node.nics > 0) {
    cluster.network = network_of_family(family, cluster.node.nic.value * 8e-9, cluster.gpu);
    if (cluster.network.name != usual.network.name) {
      cluster.node.nic_latency = nic_latency_of(family);
    }
  } else if (cluster.node.nics == 0) {
    cluster.network = named_network("none");
  } else {
    if (cluster.network.kind == Network::Kind::kNone) {
      cluster.network = named_network("Ethernet TCP");
    }
    imported.remarks.push_back("network: " + cluster.network.name + ", from " + usual.name);
  }
}

namespace {

// Switches above each unit, bottom up, as many for all: a leaf that hangs higher than others is a
// part of its own on the levels that it skips.
std::vector<std::vector<std::string>> switches_above(const NetworkFacts& facts) {
  std::size_t deepest = 0;
  for (const NetworkFacts::Unit& unit : facts.units) {
    deepest = std::max(deepest, unit.above.size());
  }
  std::vector<std::vector<std::string>> above;
  for (const NetworkFacts::Unit& unit : facts.units) {
    above.emplace_back(deepest - unit.above.size(), unit.name);
    above.back().insert(above.back().end(), unit.above.begin(), unit.above.end());
  }
  return above;
}

// Nodes below each switch of one level above the units.
std::vector<int> nodes_below(const NetworkFacts& facts,
                             const std::vector<std::vector<std::string>>& above,
                             std::size_t level) {
  std::vector<int> counts;
  for (std::size_t unit = 0; unit < above.size(); ++unit) {
    if (unit == 0 || above[unit][level] != above[unit - 1][level]) {
      counts.push_back(0);
    }
    counts.back() += static_cast<int>(facts.units[unit].nodes.size());
  }
  return counts;
}

// Whether parts of `most` nodes, the last perhaps fewer, are all there is to say.
bool all_alike(const std::vector<int>& counts, int most) {
  return counts.back() <= most &&
         std::all_of(counts.begin(), counts.end() - 1, [most](int nodes) { return nodes == most; });
}

// Switches between the leaves and the top, those of each level that join several below.
void set_levels(const NetworkFacts& facts, Imported& imported) {
  constexpr std::size_t kLevelsMost = 4;
  Network& network = imported.cluster.network;
  network.levels.clear();
  const auto above = switches_above(facts);
  std::int64_t below = network.nodes_per_unit;
  std::vector<int> last = network.unit_nodes;
  for (std::size_t at = 0; at < above.front().size(); ++at) {
    const std::vector<int> counts = nodes_below(facts, above, at);
    if (counts.size() < 2) {
      break;
    }
    if (network.levels.size() == kLevelsMost) {
      imported.remarks.push_back(
          "more than 4 levels of switches above the leaves; those above the "
          "fourth are taken as one");
      break;
    }
    const int most = *std::ranges::max_element(counts);
    const bool alike = last.empty() && most % below == 0 && all_alike(counts, counts.front());
    NetworkLevel level{.name = at == 0 ? "pod" : "level " + std::to_string(at + 2),
                       .nodes = (most + below - 1) / below * below,
                       .part_nodes = {},
                       .oversubscription = 1.0,
                       .out = {},
                       .latency = 2.0 * network.switch_latency};
    if (!alike) {
      level.part_nodes = counts;
    }
    below = level.nodes;
    last = level.part_nodes;
    network.levels.push_back(std::move(level));
  }
}

// A rack whose NVLink joins its hosts is one node here; each of its hosts has four GPUs (NVIDIA
// GB200 and GB300 NVL72 data sheets).
constexpr int kTrayGpus = 4;
int trays_of(const Node& node) {
  constexpr int kHostMost = 16;  // GPUs of the largest single host, DGX-2
  return node.nvlink_domain > kHostMost ? node.gpus / kTrayGpus : 1;
}

// The rack's node with as many trays as a domain has.
void keep_trays(Node& node, int trays, int all) {
  node.gpus = node.gpus * trays / all;
  node.nvlink_domain = node.nvlink_domain * trays / all;
  node.nics = node.nics * trays / all;
  node.sockets = node.sockets * trays / all;
}

}  // namespace

Imported complete_network(const NetworkFacts& told, const std::string& name,
                          const ImportOptions& options) {
  NetworkFacts facts = told;
  if (!options.hosts.empty()) {
    keep_hosts(facts, options.hosts, name);
  }
  const Gpu& gpu = options.gpu ? *options.gpu : find_gpu("H100", name);
  const Cluster usual = usual_node(gpu, 0, false);
  const int rack = trays_of(usual.node);
  const int trays = rack > 1 ? join_trays(facts, rack) : 1;
  Imported imported;
  imported.remarks = facts.remarks;
  Cluster& cluster = imported.cluster;
  cluster = usual;
  cluster.name = cluster.node.name = name;
  Node& node = cluster.node;
  imported.remarks.push_back(options.gpu
                                 ? "nodes: " + usual.name + ", the usual ones of " + gpu.name
                                 : "nodes: " + usual.name + "; --gpu names another card");
  keep_trays(node, trays, rack);
  if (facts.nics_per_node > 0) {
    node.nics = facts.nics_per_node * trays;
  }
  if (facts.nic.value > 0.0) {
    node.nic = facts.nic;
  }
  node.nic = options.nic.value > 0.0 ? options.nic : node.nic;
  if (node.nics == 0) {
    node.nics = 1;
    imported.remarks.push_back("one adapter a node, since there is a network");
  }
  if (node.nic.value <= 0.0) {
    node.nic = BytesPerSecond(100e9 / 8.0);
    imported.remarks.push_back("NIC rate: 100 Gbit/s; --nic names another");
  }
  set_network(imported, options, usual, facts.nic.value > 0.0 ? "infiniband" : "");
  Network& network = cluster.network;
  network.kind = facts.rails ? Network::Kind::kRailOptimised : Network::Kind::kFatTree;
  std::set<std::size_t> sizes;
  cluster.nodes = 0;
  for (const NetworkFacts::Unit& unit : facts.units) {
    sizes.insert(unit.nodes.size());
    cluster.nodes += static_cast<std::int64_t>(unit.nodes.size());
  }
  network.nodes_per_unit = static_cast<int>(*sizes.rbegin());
  network.unit_nodes.clear();
  if (sizes.size() > 1) {
    for (const NetworkFacts::Unit& unit : facts.units) {
      network.unit_nodes.push_back(static_cast<int>(unit.nodes.size()));
    }
  }
  if (facts.oversubscription > 0.0) {
    network.oversubscription = facts.oversubscription;
  } else {
    network.oversubscription = 1.0;
    imported.remarks.push_back(
        "oversubscription: none; the topology file's key oversubscription "
        "says it");
  }
  set_levels(facts, imported);
  if (options.nodes > cluster.nodes) {
    throw Error("--nodes", "is " + std::to_string(options.nodes) + ", but " + name + " holds " +
                               std::to_string(cluster.nodes));
  }
  cluster.nodes = options.nodes > 0 ? options.nodes : cluster.nodes;
  cluster.gpus = cluster.nodes * node.gpus;
  return imported;
}

}  // namespace trireme::topologies
