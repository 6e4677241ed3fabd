#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "core/error.h"
#include "topologies/compose.h"
#include "topologies/import/complete.h"
#include "topologies/import/fabric.h"
#include "topologies/nccl_settings.h"
#include "topologies/node_parts.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

int groups_of(const std::vector<Place>& places, int Place::*label) {
  std::map<int, int> groups;
  for (const Place& place : places) {
    ++groups[place.*label];
  }
  return static_cast<int>(groups.size());
}

int largest_group(const std::vector<Place>& places, int Place::*label) {
  std::map<int, int> groups;
  int most = 1;
  for (const Place& place : places) {
    most = std::max(most, ++groups[place.*label]);
  }
  return most;
}

// An adapter of unknown rate has no more than its PCIe link carries, where the file tells that.
void hold_to_links(Imported& imported, const NodeFacts& facts) {
  BytesPerSecond widest;
  for (const Place& place : facts.nic_places) {
    widest = std::max(widest, pcie_carries(place.rate));
  }
  if (widest.value <= 0.0 || widest >= imported.cluster.node.nic) {
    return;
  }
  constexpr std::array<double, 7> kUsual = {400, 200, 100, 56, 50, 40, 25};  // Gbit/s
  const double carried = widest.value * 8e-9;
  const auto most =
      std::ranges::find_if(kUsual, [carried](double gbit) { return gbit <= carried; });
  const double gbit = most == kUsual.end() ? carried : *most;
  imported.cluster.node.nic = BytesPerSecond(gbit * 1e9 / 8.0);
  imported.remarks.back() =
      fmt::format("NIC rate: {:g} Gbit/s, the most that their PCIe links in the file carry", gbit);
}

void set_nics(Imported& imported, const NodeFacts& facts, const ImportOptions& options,
              const Cluster& usual) {
  Node& node = imported.cluster.node;
  if (facts.nics_told) {
    node.nics = static_cast<int>(facts.nics.size());
  } else {
    node.nics = std::max(node.nics == 0 ? 0 : 1, usual.node.nics * facts.gpus / usual.node.gpus);
    imported.remarks.push_back("NICs: " + std::to_string(node.nics) + ", from " + usual.name);
  }
  if (options.nic.value > 0.0) {
    node.nic = options.nic;
    node.nics = std::max(node.nics, 1);
  } else if (facts.nics_told && facts.nics.front().rate.value > 0.0) {
    node.nic = facts.nics.front().rate;
  } else if (node.nics > 0) {
    node.nic = usual.node.nic.value > 0.0 ? usual.node.nic : BytesPerSecond(100e9 / 8.0);
    imported.remarks.push_back(
        fmt::format("NIC rate: {:g} Gbit/s, from {}", node.nic.value * 8e-9,
                    usual.node.nic.value > 0.0 ? usual.name : "no file; --nic names it"));
    hold_to_links(imported, facts);
  }
  if (node.nics > 0 && node.nic_latency.value <= 0.0) {
    node.nic_latency = Seconds(0.7e-6);
  }
}

// Where the file shows sockets only, two GPUs of one socket share a switch in the usual way.
std::vector<Place> with_usual_switches(std::vector<Place> places, int per_switch) {
  std::map<int, int> seen;  // GPUs of a socket so far
  for (Place& place : places) {
    const int in_socket = seen[place.socket]++;
    place.leaf = place.tree = place.bridge =
        place.socket * 1024 + in_socket / std::max(per_switch, 1);
  }
  return places;
}

void set_pcie_rates(Imported& imported, std::vector<Place>& gpus) {
  Node& node = imported.cluster.node;
  double slowest = 0.0;
  bool even = true;
  for (const Place& place : gpus) {
    even = even && place.rate == gpus.front().rate;
    slowest = std::max(slowest, place.rate.value);
  }
  if (slowest > 0.0) {
    node.pcie_per_gpu = BytesPerSecond(slowest);
    const BytesPerSecond own = imported.cluster.gpu.pcie;
    if (slowest < 0.9 * own.value || !even) {
      imported.remarks.push_back(fmt::format(
          "PCIe of the GPUs is narrower than the card's {:g} GB/s: {:g} GB/s in the file{}",
          own.value * 1e-9, slowest * 1e-9, even ? "" : " at best, some less"));
    }
  }
  for (Place& place : gpus) {
    place.rate = even || place.rate.value == slowest ? BytesPerSecond{} : place.rate;
  }
}

void set_layout(Imported& imported, const NodeFacts& facts, const Cluster& usual) {
  Node& node = imported.cluster.node;
  std::vector<Place> gpus = facts.gpu_places;
  if (gpus.empty()) {
    node.sockets = std::min(usual.node.sockets, facts.gpus);
    imported.remarks.push_back("sockets and PCIe switches: as in " + usual.name);
    Node counts = node;
    counts.layout = nullptr;
    gpus = layout_of(counts).gpus;
  } else {
    if (!facts.switches_told) {
      gpus = with_usual_switches(std::move(gpus), usual.node.gpus_per_pcie_switch);
      imported.remarks.push_back("PCIe switches: as in " + usual.name);
    }
    node.gpus_per_pcie_switch = largest_group(gpus, &Place::tree);
  }
  set_pcie_rates(imported, gpus);
  std::vector<Place> nics = facts.nic_places;
  if (static_cast<int>(nics.size()) != node.nics) {
    if (node.nics > 0) {
      imported.remarks.push_back("places of the NICs: spread evenly over the GPUs");
    }
    nics.clear();
    for (int i = 0; i < node.nics; ++i) {
      nics.push_back(gpus[static_cast<std::size_t>(std::int64_t{i} * facts.gpus / node.nics)]);
      nics.back().rate = {};
    }
  }
  for (Place& place : nics) {
    const bool narrow = place.rate.value > 0.0 && pcie_carries(place.rate) < node.nic;
    place.rate = narrow ? place.rate : BytesPerSecond{};
  }
  if (!facts.gpu_places.empty()) {
    std::vector<Place> all = gpus;
    all.insert(all.end(), nics.begin(), nics.end());
    node.sockets = groups_of(all, &Place::socket);
  }
  const bool own_links =
      facts.links_told && node.nvlink_domain > 1 && node.fabric != Node::Fabric::kNvSwitch;
  const auto layout =
      make_layout(std::move(gpus), std::move(nics), own_links ? facts.links : LinkCounts{});
  node.layout = is_regular(node, *layout) ? nullptr : layout;
}

Gpu card_of(const NodeFacts& facts, const std::string& name, const ImportOptions& options,
            std::vector<std::string>& remarks) {
  if (options.gpu) {
    if (facts.gpu_sure && find_gpu(facts.gpu, name).name != options.gpu->name) {
      remarks.push_back("the card is given as " + options.gpu->name + "; the file says " +
                        facts.gpu);
    }
    return *options.gpu;
  }
  if (facts.gpu.empty() && !facts.chip.empty()) {
    throw Error(name, "holds " + facts.chip +
                          ", of which there is no preset; give --gpu with the name of a card or a "
                          "file that holds a GPU object");
  }
  if (facts.gpu.empty()) {
    throw Error(name, "does not say which GPU it is; give --gpu, such as --gpu H100");
  }
  // Bridged pairs among more GPUs are PCIe cards.
  const std::vector<std::size_t> domains = linked_domains(facts);
  const bool pairs =
      facts.links_told && facts.gpus > 2 && std::ranges::count(domains, domains.front()) == 2;
  const Gpu& gpu = find_gpu(pairs && facts.gpu == "A100" ? "A100-PCIe" : facts.gpu, name);
  if (!facts.gpu_sure) {
    remarks.push_back("GPU: " + gpu.name + ", the usual one of its kind; --gpu names another");
  }
  return gpu;
}

// Variables that decide nothing here are left alone.
void set_nccl(Imported& imported, const NodeFacts& facts) {
  for (const auto& [variable, value] : facts.nccl) {
    if (!is_nccl_setting(variable)) {
      continue;
    }
    try {
      apply_nccl_setting(imported.cluster.nccl, variable, value, variable);
      imported.remarks.push_back(fmt::format("{}={}, as the log says", variable, value));
    } catch (const Error& error) {
      imported.remarks.push_back("not taken: " + std::string(error.what()).substr(0, 200));
    }
  }
}

}  // namespace

Imported complete_node(const NodeFacts& told, const std::string& name,
                       const ImportOptions& options) {
  NodeFacts facts = told;
  if (facts.gpus < 1 || facts.gpus > kLayoutGpusMost) {
    throw Error(name, "shows " + std::to_string(facts.gpus) + " GPUs; 1 to " +
                          std::to_string(kLayoutGpusMost) + " are possible");
  }
  Imported imported;
  imported.remarks = facts.remarks;
  imported.doubts = facts.doubts;
  const Gpu gpu = card_of(facts, name, options, imported.remarks);
  if (facts.links_are_rates) {
    count_links(facts, gpu);
  }
  const Cluster usual =
      usual_node(gpu, facts.gpus, facts.family == "efa", links_are_direct(facts, gpu));
  Cluster& cluster = imported.cluster;
  cluster = usual;
  cluster.name = name;
  Node& node = cluster.node;
  node.name = name;
  node.gpus = facts.gpus;
  if (facts.links_told) {
    set_fabric(imported, facts);
    doubt_hidden_links(imported, usual);
  } else {
    if (facts.gpus < usual.node.gpus) {  // the links to the GPUs that are not there are not either
      const Node part = with_gpus_per_node(usual, facts.gpus).node;
      node.nvlink_domain = part.nvlink_domain;
      node.nvlink_links = part.nvlink_links;
      node.nvlink_per_gpu = part.nvlink_per_gpu;
    }
    node.nvlink_domain = std::min(node.nvlink_domain, facts.gpus);
    imported.remarks.push_back("in-node links: " + fabric_name(node.fabric) + ", from " +
                               usual.name);
  }
  if (!facts.cpu.empty()) {
    node.cpu = facts.cpu;
  }
  node.peer_to_peer = facts.peer_to_peer.value_or(gpu.peer_to_peer);
  imported.remarks.push_back("the rest of the node (latencies, links of the sockets): as in " +
                             usual.name);
  if (!facts.peer_to_peer) {
    imported.remarks.push_back(fmt::format("peer to peer over PCIe: {}, as the card's stock driver",
                                           gpu.peer_to_peer ? "yes" : "no"));
  }
  if (usual.node.nvlink_domain >= 32 && node.nvlink_domain < usual.node.nvlink_domain) {
    imported.remarks.push_back(fmt::format(
        "NVLink joins {} GPUs of a rack of {}; the file shows {} of them, which are taken alone",
        usual.node.nvlink_domain, usual.name, node.gpus));
  }
  set_nics(imported, facts, options, usual);
  set_layout(imported, facts, usual);
  set_network(imported, options, usual, facts.family);
  set_nccl(imported, facts);
  std::int64_t nodes = options.nodes > 0 ? options.nodes : std::max<std::int64_t>(facts.nodes, 1);
  if (!options.hosts.empty()) {
    nodes = static_cast<std::int64_t>(options.hosts.size());
    imported.remarks.push_back("hosts: counted only; " + name +
                               " does not say which leaf each hangs on");
  }
  if (nodes > 1 && (node.nics == 0 || cluster.network.kind == Network::Kind::kNone)) {
    throw Error("--nodes", "is more than 1, but " + name + " shows no network adapter");
  }
  cluster.nodes = nodes;
  cluster.gpus = nodes * node.gpus;
  return imported;
}

}  // namespace trireme::topologies
