#include "topologies/import.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

int groups_of(const std::vector<int>& labels) {
  std::vector<int> sorted = labels;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return static_cast<int>(sorted.size());
}

int largest_group(const std::vector<int>& labels) {
  int most = 1;
  for (const int label : labels) {
    most = std::max(most, static_cast<int>(std::ranges::count(labels, label)));
  }
  return most;
}

int links_from(const NodeFacts& facts, std::size_t gpu) {
  const int peers = std::accumulate(facts.links[gpu].begin(), facts.links[gpu].end(), 0);
  return peers + facts.switch_links[gpu];
}

// GPUs that GPU 0 reaches over links, itself included.
int linked_domain(const NodeFacts& facts) {
  const auto count = static_cast<std::size_t>(facts.gpus);
  if (facts.switch_links[0] > 0) {
    return static_cast<int>(std::ranges::count_if(facts.switch_links, [](int n) { return n > 0; }));
  }
  std::vector<bool> reached(count, false);
  std::vector<std::size_t> open = {0};
  reached[0] = true;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (std::size_t to = 0; to < count; ++to) {
      if (facts.links[at][to] > 0 && !reached[to]) {
        reached[to] = true;
        open.push_back(to);
      }
    }
  }
  return static_cast<int>(std::ranges::count(reached, true));
}

// Which fabric the links make. A matrix prints the links to an NVSwitch for every pair, so that the
// sum over the peers exceeds what a GPU has.
void set_fabric(Cluster& cluster, const NodeFacts& facts) {
  Node& node = cluster.node;
  const int domain = linked_domain(facts);
  const int out = links_from(facts, 0);
  node.nvlink_domain = domain;
  if (domain <= 1) {
    node.fabric = Node::Fabric::kPcie;
    node.nvlink_links = 0;
    node.nvlink_per_gpu = BytesPerSecond(0.0);
    return;
  }
  const int known = std::max(1, cluster.gpu.nvlink_links);
  const double per_link = cluster.gpu.nvlink_per_gpu.value / known;
  const bool all_peers =
      std::ranges::count_if(facts.links[0], [](int n) { return n > 0; }) == domain - 1;
  if (facts.switch_links[0] > 0) {
    node.fabric = Node::Fabric::kNvSwitch;
    node.nvlink_links = facts.switch_links[0];
  } else if (all_peers && domain > 2 && out > known) {
    node.fabric = Node::Fabric::kNvSwitch;
    node.nvlink_links = *std::ranges::max_element(facts.links[0]);
  } else if (domain == 2) {
    node.fabric = Node::Fabric::kPairs;
    node.nvlink_links = out;
  } else {
    node.fabric = all_peers ? Node::Fabric::kMesh : Node::Fabric::kCubeMesh;
    node.nvlink_links = out;
  }
  node.nvlink_per_gpu = BytesPerSecond(per_link * node.nvlink_links);
}

// The usual cluster of a GPU, for what the file leaves open.
Cluster usual_cluster(const Gpu& gpu, int gpus) {
  std::string best;
  for (const std::string& name : cluster_preset_names()) {
    const Cluster preset = load_cluster(name);
    if (preset.gpu.name == gpu.name && (best.empty() || preset.node.gpus == gpus)) {
      best = name;
      if (preset.node.gpus == gpus) {
        break;
      }
    }
  }
  Cluster cluster =
      load_cluster(best.empty() ? (gpu.nvlink_links > 0 ? "dgx-h100" : "l40s") : best);
  cluster.gpu = gpu;
  return cluster;
}

void set_nics(Imported& imported, const NodeFacts& facts, const ImportOptions& options,
              const Cluster& usual) {
  Node& node = imported.cluster.node;
  if (facts.nics_told) {
    node.nics = facts.nics;
  } else {
    imported.completed.push_back("NICs: " + std::to_string(node.nics) + ", from " + usual.name);
  }
  if (options.nic.value > 0.0) {
    node.nic = options.nic;
  } else if (facts.nic.value > 0.0) {
    node.nic = facts.nic;
  } else if (node.nics > 0) {
    node.nic = usual.node.nic.value > 0.0 ? usual.node.nic : BytesPerSecond(100e9 / 8.0);
    imported.completed.push_back("NIC rate, from " + usual.name);
  }
  if (node.nics > 0 && node.nic_latency.value <= 0.0) {
    node.nic_latency = Seconds(0.7e-6);
  }
}

void set_network(Imported& imported, const ImportOptions& options, const Cluster& usual) {
  Cluster& cluster = imported.cluster;
  if (!options.network.empty()) {
    const auto found = std::ranges::find(network_presets(), options.network, &Network::name);
    if (found == network_presets().end()) {
      throw Error("--network", "'" + options.network + "' is not a known network");
    }
    cluster.network = *found;
  } else if (cluster.node.nics == 0) {
    cluster.network = *std::ranges::find(network_presets(), std::string("none"), &Network::name);
  } else {
    imported.completed.push_back("network: " + cluster.network.name + ", from " + usual.name);
    if (cluster.network.kind == Network::Kind::kNone) {
      cluster.network =
          *std::ranges::find(network_presets(), std::string("Ethernet TCP"), &Network::name);
    }
  }
}

}  // namespace

Imported import_topology(const std::string& text, const std::string& name,
                         const ImportOptions& options) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) {
    throw Error(name, "is empty");
  }
  const NodeFacts facts =
      text[first] == '<' ? read_topology_xml(text, name) : read_topology_matrix(text, name);
  if (facts.gpus < 1 || facts.gpus > 1024) {
    throw Error(name, "shows " + std::to_string(facts.gpus) + " GPUs; 1 to 1024 are possible");
  }
  if (options.gpu.empty() && facts.gpu.empty()) {
    throw Error(name, "does not say which GPU it is; give --gpu, such as --gpu H100");
  }
  Imported imported;
  // Bridged pairs among more GPUs are PCIe cards.
  const bool cards =
      facts.links_told && facts.gpus > 2 && linked_domain(facts) == 2 && facts.gpu == "A100";
  const Gpu& gpu = options.gpu.empty() ? find_gpu(cards ? "A100-PCIe" : facts.gpu, name)
                                       : find_gpu(options.gpu, "--gpu");
  if (options.gpu.empty()) {
    imported.completed.push_back("GPU: " + gpu.name +
                                 ", the usual one of its kind; --gpu names another");
  }
  const Cluster usual = usual_cluster(gpu, facts.gpus);
  Cluster& cluster = imported.cluster;
  cluster = usual;
  cluster.name = name;
  Node& node = cluster.node;
  node.name = name;
  node.gpus = facts.gpus;
  if (facts.links_told) {
    set_fabric(cluster, facts);
  } else {
    node.nvlink_domain = std::min(node.nvlink_domain, facts.gpus);
    imported.completed.push_back("in-node links: " + fabric_name(node.fabric) + ", from " +
                                 usual.name);
  }
  node.gpus_per_pcie_switch = largest_group(facts.pcie_group);
  node.sockets = groups_of(facts.socket);
  if (!facts.cpu.empty()) {
    node.cpu = facts.cpu;
  }
  set_nics(imported, facts, options, usual);
  set_network(imported, options, usual);
  if (options.nodes > 1 && (node.nics == 0 || cluster.network.kind == Network::Kind::kNone)) {
    throw Error("--nodes", "is more than 1, but " + name + " shows no network adapter");
  }
  cluster.nodes = options.nodes;
  cluster.gpus = options.nodes * node.gpus;
  return imported;
}

}  // namespace trireme::topologies
