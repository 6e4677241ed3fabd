// A log of NCCL_DEBUG=INFO: with the subsystem GRAPH its path lines tell how GPUs and adapters
// reach each other ("GPU/CE000 :GPU/0-4e000 (5/10.0/SYS) NET/0-0 (4/24.0/PHB)"), or its tree of the
// machine does; without it, how many ranks, nodes and adapters there are. nccl-tests' banner names
// the card.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "core/error.h"
#include "topologies/import/facts.h"
#include "topologies/import/nccl_said.h"
#include "topologies/import/nccl_tree.h"
#include "topologies/nccl_constants.h"

namespace trireme::topologies {
namespace {

struct Cell {
  Path path = Path::kSystem;
  bool linked = false;
  int hops = 0;       // of the tree's links; 0: not told
  double rate = 0.0;  // GB/s as NCCL books it
};

struct Log {
  std::vector<std::string> gpus, nets;  // in the order of their first row or column
  std::map<std::pair<std::string, std::string>, Cell> cells;
  NcclSaid said;
  int local_ranks = 0, nodes = 0, ranks = 0;
  int channels = 0;
  bool amd = false;
  std::map<std::string, double> net_rates;  // GB/s
  std::map<std::string, double> pcie;       // of GPUs and adapters, GB/s as NCCL books it
  std::string card;                         // as the banner names it
};

std::optional<Cell> read_cell(const std::string& word) {
  // (hops/bandwidth/type)
  const std::size_t first = word.find('/');
  const std::size_t second = first == std::string::npos ? first : word.find('/', first + 1);
  if (!word.starts_with('(') || second == std::string::npos || !word.ends_with(')')) {
    return std::nullopt;
  }
  Cell cell;
  cell.hops = static_cast<int>(std::strtol(word.c_str() + 1, nullptr, 10));
  cell.rate = std::strtod(word.substr(first + 1, second - first - 1).c_str(), nullptr);
  const std::string type = word.substr(second + 1, word.size() - second - 2);
  cell.linked = type == "NVL" || type == "NVB" || type == "XGMI";
  constexpr std::pair<const char*, Path> kTypes[] = {
      {"LOC", Path::kSame},   {"PIX", Path::kSwitch}, {"PXB", Path::kTree},  {"PXN", Path::kBridge},
      {"P2C", Path::kBridge}, {"PHB", Path::kBridge}, {"NODE", Path::kNode}, {"SYS", Path::kSystem},
      {"NET", Path::kSystem}, {"DIS", Path::kSystem}};
  for (const auto& [name, path] : kTypes) {
    if (type == name) {
      cell.path = path;
    }
  }
  return cell;
}

// "GPU/CE000 :GPU/0-4e000 (5/10.0/SYS) ... NET/0-0 (4/12.5/PXB)"
void read_paths(const std::string& line, Log& log) {
  const std::size_t start = line.find("GPU/");
  const std::size_t colon = start == std::string::npos ? start : line.find(" :", start);
  if (colon == std::string::npos || line.find('(', start) < colon) {
    return;
  }
  const std::string own = device_id(line.substr(start, colon - start));
  std::istringstream stream(line.substr(colon + 2));
  std::string device;
  for (std::string word; stream >> word;) {
    const bool gpu = word.starts_with("GPU/");
    if (gpu || word.starts_with("NET/") || word.starts_with("CPU/") || word.starts_with("NVS/")) {
      device = gpu || word.starts_with("NET/") ? word : "";
      continue;
    }
    const std::optional<Cell> cell = read_cell(word);
    if (cell && !device.empty()) {
      const bool is_gpu = device.starts_with("GPU/");
      const std::string other = (is_gpu ? "" : "net ") + device_id(device);
      add_once(is_gpu ? log.gpus : log.nets, other);
      log.cells[{own, other}] = *cell;
    }
    device.clear();
  }
}

// How two devices of the tree reach each other. NCCL's tree has one host bridge a CPU.
Path path_of_devices(const NcclTree::Device& a, const NcclTree::Device& b) {
  std::size_t same = 0;
  while (same < std::min(a.above.size(), b.above.size()) && a.above[same] == b.above[same]) {
    ++same;
  }
  if (same == 0) {
    return Path::kSystem;
  }
  const bool one_switch = same == a.above.size() && same == b.above.size() && same > 1;
  return same == 1 ? Path::kBridge : (one_switch ? Path::kSwitch : Path::kTree);
}

// Whether path lines are there and tell of none of the tree's GPUs: they are another host's.
bool is_of_another_host(const NcclTree& tree, const Log& log) {
  return !log.gpus.empty() && std::ranges::none_of(tree.gpus, [&](const auto& gpu) {
    return std::ranges::find(log.gpus, gpu.id) != log.gpus.end();
  });
}

// What the tree says, where no path lines do.
void add_tree(const NcclTree& tree, Log& log) {
  constexpr std::size_t kNetsMost = 256;
  log.net_rates = tree.net_rates;
  for (const NcclTree::Device& gpu : tree.gpus) {
    log.pcie[gpu.id] = gpu.pcie;
  }
  for (const NcclTree::Device& net : tree.nets) {
    log.pcie["net " + net.id] = net.pcie;
  }
  if (is_of_another_host(tree, log) ||
      tree.gpus.size() > static_cast<std::size_t>(kLayoutGpusMost) ||
      tree.nets.size() > kNetsMost) {
    return;
  }
  std::vector<std::pair<std::string, NcclTree::Device>> devices;
  for (const NcclTree::Device& gpu : tree.gpus) {
    add_once(log.gpus, gpu.id);
    devices.emplace_back(gpu.id, gpu);
  }
  for (const NcclTree::Device& net : tree.nets) {
    add_once(log.nets, "net " + net.id);
    devices.emplace_back("net " + net.id, net);
  }
  for (const auto& [name, device] : devices) {
    for (const auto& [other_name, other] : devices) {
      Cell cell{path_of_devices(device, other), false, 0, 0.0};
      const auto link = tree.links.find({device.id, other.id});
      const auto own = tree.switched.find(device.id);
      const bool gpus = !name.starts_with("net") && !other_name.starts_with("net");
      if (gpus && link != tree.links.end()) {
        cell = {cell.path, true, 0, link->second};
      } else if (gpus && own != tree.switched.end() && tree.switched.contains(other.id)) {
        cell = {cell.path, true, 0, own->second};
      }
      if (!log.cells.contains({other_name, name})) {
        log.cells.emplace(std::pair(name, other_name), cell);
      }
    }
  }
}

// "#  Rank  0 Group  0 Pid   9822 on host device  0 [0000:2c:00] NVIDIA GeForce RTX 4090"
void read_banner(const std::string& line, Log& log) {
  const std::size_t device = line.find(" device ");
  const std::size_t bracket = device == std::string::npos ? device : line.find("] ", device);
  if (!log.card.empty() || bracket == std::string::npos || line.find("Rank ") > device) {
    return;
  }
  log.card = line.substr(bracket + 2);
  log.card.erase(log.card.find_last_not_of(" \t\r") + 1);
}

Log read_log(const std::string& text) {
  Log log;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    read_paths(line, log);
    read_said(line, log.said);
    log.local_ranks = std::max(log.local_ranks, number_after(line, "localRanks "));
    log.nodes = std::max(log.nodes, number_after(line, "nNodes "));
    log.ranks = std::max({log.ranks, number_after(line, "nranks "), number_after(line, "nRanks ")});
    log.channels = std::max(log.channels, number_after(line, "nChannels "));
    if (const std::size_t at = line.find("Channel "); at != std::string::npos) {
      // "Channel 00/12 : 0 1 2 3": the last column but one says how many.
      const std::size_t slash = line.find('/', at);
      if (slash != std::string::npos && slash < at + 12) {
        log.channels = std::max(log.channels, number_after(line.substr(slash), "/"));
      }
    }
    log.amd = log.amd || line.find("RCCL") != std::string::npos;
    read_banner(line, log);
  }
  if (log.local_ranks == 0 && log.nodes == 0 && log.ranks > 0 && printers(log.said) == log.ranks) {
    log.nodes = static_cast<int>(log.said.seen.size());
  }
  add_tree(read_nccl_tree(text), log);
  return log;
}

void set_places(const Log& log, NodeFacts& facts) {
  DevicePaths devices;
  std::vector<std::string> keys = log.gpus;
  keys.insert(keys.end(), log.nets.begin(), log.nets.end());
  bool told = false;
  for (std::size_t a = 0; a < keys.size(); ++a) {
    devices.names.push_back(keys[a]);
    devices.memory.emplace_back();
    std::vector<std::optional<Path>> row;
    for (std::size_t b = 0; b < keys.size(); ++b) {
      auto found = log.cells.find({keys[a], keys[b]});
      found = found == log.cells.end() ? log.cells.find({keys[b], keys[a]}) : found;
      const bool known = a != b && found != log.cells.end() && !found->second.linked;
      row.push_back(known ? std::optional(found->second.path) : std::nullopt);
      told = told || known;
    }
    devices.paths.push_back(std::move(row));
  }
  if (!told) {
    return;
  }
  const std::vector<Place> places = place_devices(devices, facts.remarks, facts.doubts);
  const auto first_net = places.begin() + static_cast<std::ptrdiff_t>(log.gpus.size());
  facts.gpu_places.assign(places.begin(), first_net);
  facts.nic_places.assign(first_net, places.end());
  const auto raw = [&log](const std::string& device) {
    const auto rate = log.pcie.find(device);
    return BytesPerSecond(rate == log.pcie.end() ? 0.0 : rate->second * 1e9 / kPcieBooked);
  };
  for (std::size_t i = 0; i < log.gpus.size(); ++i) {
    facts.gpu_places[i].rate = raw(log.gpus[i]);
  }
  for (std::size_t i = 0; i < log.nets.size(); ++i) {
    facts.nic_places[i].rate = raw(log.nets[i]);
  }
}

// Adapters much slower than the fastest are no part of the fabric, as in the XML.
void leave_out_slow(Log& log, NodeFacts& facts) {
  const auto rate_of = [&](const std::string& net) {
    const auto found = log.net_rates.find(net.substr(4));  // "net 0"
    return found == log.net_rates.end() ? 0.0 : found->second;
  };
  double fastest = 0.0;
  for (const std::string& net : log.nets) {
    fastest = std::max(fastest, rate_of(net));
  }
  std::string left_out;
  std::erase_if(log.nets, [&](const std::string& net) {
    const double rate = rate_of(net);
    const bool slow = rate > 0.0 && rate < 0.6 * fastest;
    left_out += slow ? (left_out.empty() ? "" : ", ") + ("NET/" + net.substr(4)) : "";
    return slow;
  });
  if (!left_out.empty()) {
    facts.remarks.push_back("adapters that are slower than the fabric's are left out: " + left_out);
  }
}

// NVLink that joins the hosts of a rack (MNNVL): they are one node here.
void join_clique(Log& log, const std::string& name) {
  const int clique = log.said.clique;
  if (clique <= log.local_ranks || clique < 2 || !log.gpus.empty()) {
    return;
  }
  if (clique > kLayoutGpusMost) {
    throw Error(name, "shows " + std::to_string(clique) +
                          " GPUs that NVLink joins over several hosts; at most " +
                          std::to_string(kLayoutGpusMost) +
                          " are read, and --cluster gb200-nvl72 is such a rack");
  }
  log.local_ranks = clique;
  log.nodes = std::max(1, (log.ranks + clique - 1) / clique);
}

}  // namespace

NodeFacts read_nccl_debug(const std::string& text, const std::string& name) {
  Log log = read_log(text);
  std::ranges::sort(log.gpus, {},
                    [](const std::string& id) { return std::strtoull(id.c_str(), nullptr, 16); });
  std::ranges::sort(log.nets);
  NodeFacts facts;
  if (log.local_ranks == 0 && log.ranks > 0 && log.nodes > 0) {
    log.local_ranks = (log.ranks + log.nodes - 1) / log.nodes;
  }
  join_clique(log, name);
  const std::size_t gpus =
      !log.gpus.empty() ? log.gpus.size() : static_cast<std::size_t>(log.local_ranks);
  if (gpus == 0 || gpus > static_cast<std::size_t>(kLayoutGpusMost)) {
    throw Error(name,
                "is an NCCL log that tells neither paths (NCCL_DEBUG_SUBSYS=INIT,GRAPH prints "
                "them) nor how many ranks a node has (localRanks)");
  }
  facts.gpus = static_cast<int>(gpus);
  facts.nodes = log.nodes;
  facts.links.assign(gpus, std::vector<int>(gpus, 0));
  facts.switch_links.assign(gpus, 0);
  facts.links_told = facts.links_are_rates = !log.gpus.empty();
  // GPUs that reach each other through others' links have more hops between them.
  int nearest = 0;
  for (const auto& [ends, cell] : log.cells) {
    nearest = cell.linked && (nearest == 0 || cell.hops < nearest) ? cell.hops : nearest;
  }
  for (std::size_t a = 0; a < log.gpus.size(); ++a) {
    for (std::size_t b = 0; b < log.gpus.size(); ++b) {
      const auto found = log.cells.find({log.gpus[a], log.gpus[b]});
      if (a != b && found != log.cells.end() && found->second.linked &&
          found->second.hops <= nearest) {
        facts.links[a][b] = facts.links[b][a] =
            static_cast<int>(std::clamp(found->second.rate, 1.0, 10'000.0));
      }
    }
  }
  leave_out_slow(log, facts);
  set_places(log, facts);
  const std::size_t nets = !log.nets.empty() ? log.nets.size() : log.said.adapters.size();
  for (std::size_t i = 0; i < nets; ++i) {
    const auto rate = i < log.nets.size() ? log.net_rates.find(log.nets[i].substr(4))  // "net 0"
                                          : log.net_rates.end();
    const std::string adapter = i < log.said.adapters.size() ? log.said.adapters[i] : "";
    facts.nics.push_back({adapter, rate == log.net_rates.end()
                                       ? told_rate(log.said, adapter)
                                       : BytesPerSecond(1e9 * rate->second)});
  }
  if (!log.card.empty()) {
    if (const Gpu* gpu = known_gpu(log.card)) {
      facts.gpu = gpu->name;
      facts.gpu_sure = true;
    } else {
      facts.remarks.push_back("the card '" + log.card + "' of the log is not known; --gpu says it");
    }
  }
  facts.nics_told = nets > 0;
  add_said(log.said,
           std::ranges::any_of(log.cells, [](const auto& cell) { return cell.second.linked; }),
           facts);
  if (log.channels > 0) {
    facts.remarks.push_back("NCCL's own search found " + std::to_string(log.channels) +
                            " channels");
  }
  return facts;
}

}  // namespace trireme::topologies
