#include "topologies/compose.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <regex>
#include <string_view>

#include "core/error.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

// What a description says about a node's adapters; 0 and empty: nothing said.
struct NetworkWords {
  int nics = 0;
  double gbit = 0.0;       // of one adapter
  double node_gbit = 0.0;  // of all adapters of a node
  bool per_gpu = false;    // one adapter a GPU
  std::string family;      // "infiniband", "roce", "efa", "omni-path", "tcp"
};

struct KnownSystem {
  std::string_view word;
  std::string_view arch;  // empty: any
  NetworkWords network;
};

// Systems that publications name without describing (their owners' published descriptions).
const std::array<KnownSystem, 16>& known_systems() {
  static const std::array<KnownSystem, 16> systems = {{
      {"selene", "", {8, 200, 0, false, "infiniband"}},
      {"superpod", "Ampere", {8, 200, 0, false, "infiniband"}},
      {"eos", "Hopper", {8, 400, 0, false, "infiniband"}},
      {"jean zay", "", {4, 100, 0, false, "omni-path"}},
      {"mosaicml", "Ampere", {8, 200, 0, false, "roce"}},
      {"mosaicml", "Hopper", {8, 400, 0, false, "roce"}},
      {"grand teton", "", {8, 400, 0, false, "roce"}},
      {"meta rsc", "", {8, 200, 0, false, "infiniband"}},
      {"azure", "Ampere", {8, 200, 0, false, "infiniband"}},
      {"azure", "Hopper", {8, 400, 0, false, "infiniband"}},
      {"juwels", "", {4, 200, 0, false, "infiniband"}},
      {"perlmutter", "", {4, 200, 0, false, "roce"}},
      {"leonardo", "", {4, 100, 0, false, "infiniband"}},
      {"vtrain", "Ampere", {4, 200, 0, false, "infiniband"}},
      {"oracle", "Ampere", {16, 100, 0, false, "roce"}},
      {"oracle", "Hopper", {16, 200, 0, false, "roce"}},
  }};
  return systems;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has_word(const std::string& text, const char* pattern) {
  return std::regex_search(text,
                           std::regex(std::string("(^|[^a-z0-9])(") + pattern + ")([^a-z0-9]|$)"));
}

std::string family_of(const std::string& text) {
  if (has_word(text, "tcpxo?|fastrak")) {
    return text.find("tcpxo") != std::string::npos ? "tcpxo" : "tcpx";
  }
  if (has_word(text, "efa|aws|p4d|p4de|p5|p5e|p5en|p6-b200|p6-b300")) {
    return "efa";
  }
  if (has_word(text, "omni-?path|opa")) {
    return "omni-path";
  }
  if (has_word(text, "roce|rocev2|cx-?7|rdma|slingshot|slingshot-?11")) {
    return "roce";
  }
  if (has_word(text, "ib|infiniband|edr|hdr|ndr|xdr|hdr100")) {
    return "infiniband";
  }
  return has_word(text, "ethernet|tcp") ? "tcp" : "";
}

double generation_gbit(const std::string& word) {
  constexpr std::array<std::pair<std::string_view, double>, 5> kRates = {
      {{"edr", 100}, {"hdr100", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}}};
  for (const auto& [name, rate] : kRates) {
    if (name == word) {
      return rate;
    }
  }
  return 0.0;
}

// "8x40G" means eight 40 GB cards, so only the rates that adapters have are read as rates.
bool is_adapter_rate(double gbit) {
  constexpr std::array<double, 7> kRates = {25, 50, 100, 200, 400, 800, 1600};
  return std::ranges::find(kRates, gbit) != kRates.end();
}

// A number of the description. Digits without end are bad input, not an exception of the library.
double number_in(const std::ssub_match& digits, const std::string& where) {
  constexpr double kMost = 1e6;
  const std::string text = digits.str();
  const double value = std::strtod(text.c_str(), nullptr);
  if (value > kMost) {
    throw Error(where, "the cluster's description says " + text.substr(0, 20) +
                           (text.size() > 20 ? "..." : "") + "; numbers go up to 1000000");
  }
  return value;
}

int count_in(const std::ssub_match& digits, const std::string& where) {
  return static_cast<int>(number_in(digits, where));
}

NetworkWords read_words(const std::string& text, const std::string& where) {
  static const std::regex kCountRate(R"((\d+)\s*x\s*(?:(?:edr|hdr|ndr|xdr|ib|infiniband|roce)\s+)*)"
                                     R"((\d+)\s*(?:g\b|gb/s|gbps|gbit|hdr|ndr|edr|xdr|ib\b))");
  static const std::regex kCountGeneration(R"((\d+)\s*x?\s*(edr|hdr100|hdr|ndr|xdr)\b)");
  static const std::regex kLinks(R"((\d+)\s+omni-?path\s+(\d+)\s*g)");
  static const std::regex kOnePort(R"(\b(?:one|single|1)\s+(\d+)\s*gb)");
  static const std::regex kPerNode(
      R"((\d+(?:\.\d+)?)\s*(g|t)(?:b/s|bps|bit/s)\s*(?:[a-z0-9-]+\s+)?(?:per|/)\s*node)");
  static const std::regex kPerGpu(
      R"((\d+)\s*(?:gb/s|gbps|gbit/s|g)\s*(?:[a-z0-9-]+\s+){0,2}(?:per|/)\s*gpu)");
  NetworkWords words;
  words.family = family_of(text);
  std::smatch match;
  if (std::regex_search(text, match, kLinks) || std::regex_search(text, match, kCountRate)) {
    if (is_adapter_rate(number_in(match[2], where))) {
      words.nics = count_in(match[1], where);
      words.gbit = number_in(match[2], where);
      return words;
    }
  }
  if (std::regex_search(text, match, kPerGpu)) {
    words.per_gpu = true;
    words.gbit = number_in(match[1], where);
  } else if (std::regex_search(text, match, kOnePort)) {
    words.nics = 1;
    words.gbit = number_in(match[1], where);
  } else if (std::regex_search(text, match, kCountGeneration)) {
    words.nics = count_in(match[1], where);
    words.gbit = generation_gbit(match[2]);
  } else if (std::regex_search(text, match, kPerNode)) {
    words.node_gbit = number_in(match[1], where) * (match[2] == "t" ? 1000.0 : 1.0);
  }
  return words;
}

// A tray of an NVL72 rack is not a node of its own: the rack's NVLink joins the trays.
Cluster with_node_size(Cluster cluster, int gpus_per_node) {
  Node& node = cluster.node;
  const bool tray =
      node.nvlink_domain >= 32 && gpus_per_node > 0 && node.nvlink_domain % gpus_per_node == 0;
  if (gpus_per_node == 0 || tray) {
    return cluster;
  }
  if (gpus_per_node > node.gpus) {
    node.nvlink_domain = node.nvlink_domain == node.gpus ? gpus_per_node : node.nvlink_domain;
    node.gpus = gpus_per_node;
    return cluster;
  }
  return with_gpus_per_node(std::move(cluster), gpus_per_node);
}

std::string network_name(const std::string& family, double gbit, const Gpu& gpu) {
  const auto by_rate = [gbit](const char* a, const char* b, const char* c, const char* d) {
    const double rate = gbit / 1.05;  // some tools round it
    return std::string(rate <= 100 ? a : (rate <= 200 ? b : (rate <= 400 ? c : d)));
  };
  if (family == "infiniband") {
    return by_rate("EDR InfiniBand", "HDR InfiniBand", "NDR InfiniBand", "XDR InfiniBand");
  }
  if (family == "roce") {
    return by_rate("RoCE 100G", "RoCE 200G", "RoCE 400G", "RoCE 800G");
  }
  if (family == "efa") {
    return gpu.compute_capability >= 100 ? "EFA v4"
           : gpu.compute_capability < 90 ? "EFA v1"
           : gbit >= 200                 ? "EFA v3"
                                         : "EFA v2";
  }
  if (family == "omni-path") {
    return "Omni-Path";
  }
  if (family == "tcpx" || family == "tcpxo") {
    return family == "tcpx" ? "GPUDirect-TCPX" : "GPUDirect-TCPXO";
  }
  return "Ethernet TCP";
}

void apply_words(Cluster& cluster, const NetworkWords& words, int gpus_per_node) {
  Node& node = cluster.node;
  const bool counted = words.nics > 0 || words.node_gbit > 0.0 || words.per_gpu;
  const double usual_gbit = node.nic.value * 8e-9;
  double gbit = words.gbit > 0.0 ? words.gbit : usual_gbit;
  if (words.per_gpu) {
    node.nics = gpus_per_node;
  } else if (words.nics > 0) {
    node.nics = words.nics;
  } else if (words.node_gbit > 0.0) {
    // The sum is given: as many adapters as the usual node has, at the rate that gives the sum, or
    // 100G ones.
    const double each = words.node_gbit / node.nics;
    gbit = each >= 100.0 && is_adapter_rate(each) ? each : 100.0;
    node.nics = std::max(1, static_cast<int>(words.node_gbit / gbit));
  }
  if (counted || words.gbit > 0.0) {
    node.nic = BytesPerSecond(gbit * 1e9 / 8.0);
  }
  if (words.family.empty() && !counted) {
    return;
  }
  std::string family = words.family;
  if (family.empty()) {
    family = cluster.network.name.find("InfiniBand") != std::string::npos ? "infiniband" : "roce";
  }
  cluster.network = network_of_family(family, gbit, cluster.gpu);
  node.nic_latency = nic_latency_of(family);
}

// "1:7 oversubscription above the 3072-GPU pod".
void apply_oversubscription(Cluster& cluster, const std::string& text, const std::string& where) {
  static const std::regex kRatio(R"((\d+)\s*:\s*(\d+)\s*over-?subscri)");
  static const std::regex kPod(R"((\d+)-gpu pod)");
  std::smatch match;
  if (!std::regex_search(text, match, kRatio)) {
    return;
  }
  const double a = number_in(match[1], where);
  const double b = number_in(match[2], where);
  if (a > 0.0 && b > 0.0) {
    cluster.network.oversubscription = std::max(a, b) / std::min(a, b);
  }
  if (std::regex_search(text, match, kPod)) {
    cluster.network.nodes_per_unit = std::max(1, count_in(match[1], where) / cluster.node.gpus);
  }
}

}  // namespace

const Network& network_of_family(const std::string& family, double gbit, const Gpu& gpu) {
  const std::string name = network_name(family, gbit, gpu);
  return *std::ranges::find(network_presets(), name, &Network::name);
}

Seconds nic_latency_of(const std::string& family) {
  return family == "efa"           ? Seconds(7e-6)
         : family.starts_with("t") ? Seconds(15e-6)
                                   : Seconds(0.7e-6);
}

Cluster usual_node(const Gpu& gpu, int gpus_per_node, bool aws, bool direct) {
  std::optional<Cluster> best;
  int best_score = -1;
  for (const std::string& name : cluster_preset_names()) {
    Cluster preset = load_cluster(name);
    const bool same = preset.gpu.name == gpu.name;
    const bool alike = preset.gpu.compute_capability == gpu.compute_capability &&
                       preset.gpu.nvlink_links == gpu.nvlink_links && preset.gpu.pcie == gpu.pcie;
    if (!same && !alike) {
      continue;
    }
    const bool some_of_more = !direct && preset.node.fabric == Node::Fabric::kMesh && best &&
                              best->node.fabric == Node::Fabric::kNvSwitch;
    const bool sized = gpus_per_node == 0 || preset.node.gpus == gpus_per_node;
    const int score = (same ? 4 : 0) + (aws == name.starts_with("aws-") ? 2 : 0) +
                      (sized && !some_of_more ? 1 : 0);
    if (score > best_score) {
      best_score = score;
      best = std::move(preset);
    }
  }
  if (!best) {
    const bool amd = gpu.compute_capability >= 900;
    best = load_cluster(gpu.nvlink_links == 0 ? "l40s" : (amd ? "mi300x" : "dgx-h100"));
    best->node.nvlink_links = gpu.nvlink_links;
    best->node.nvlink_per_gpu = gpu.nvlink_per_gpu;
    best->node.pcie_per_gpu = gpu.pcie;
  }
  if (best->gpu.name != gpu.name) {
    best->node.peer_to_peer = gpu.peer_to_peer;
  }
  best->gpu = gpu;
  return *best;
}

Cluster compose_cluster(const std::string& gpu_name, int gpus_per_node, std::int64_t gpus,
                        const std::string& description, const std::string& where) {
  const Gpu& gpu = find_gpu(gpu_name, where);
  if (gpus < 1 || gpus > 100'000'000 || gpus_per_node < 0 || gpus_per_node > 1024) {
    throw Error(where, "needs 1 to 1e8 GPUs and at most 1024 a node");
  }
  // The library's regular expressions use stack by the character; descriptions are a line or two.
  constexpr std::size_t kLongest = 1000;
  if (description.size() > kLongest) {
    throw Error(where, "the cluster's description has " + std::to_string(description.size()) +
                           " characters; at most " + std::to_string(kLongest) + " are read");
  }
  const std::string text = lower(description);
  NetworkWords words = read_words(text, where);
  const bool silent = words.nics == 0 && words.node_gbit <= 0.0 && words.gbit <= 0.0;
  for (const KnownSystem& system : known_systems()) {
    if (silent && text.find(system.word) != std::string::npos &&
        (system.arch.empty() || system.arch == gpu.arch)) {
      words = system.network;
      break;
    }
  }
  // several hosts of four are boards of four; four of one host may be half of a larger board
  const bool several = gpus_per_node > 0 && gpus > gpus_per_node;
  Cluster cluster = usual_node(gpu, gpus_per_node, words.family == "efa", several);
  cluster = with_node_size(std::move(cluster), gpus_per_node);
  if (cluster.node.nics == 0) {
    cluster.node.nics = 1;
    cluster.node.nic = BytesPerSecond(100e9 / 8.0);
  }
  apply_words(cluster, words, gpus_per_node == 0 ? cluster.node.gpus : gpus_per_node);
  if (cluster.network.kind == Network::Kind::kNone) {
    cluster.network =
        *std::ranges::find(network_presets(), std::string("Ethernet TCP"), &Network::name);
  }
  apply_oversubscription(cluster, text, where);
  cluster.nodes = (gpus + cluster.node.gpus - 1) / cluster.node.gpus;
  cluster.gpus = gpus;
  cluster.name = gpu.name + " x" + std::to_string(gpus);
  return cluster;
}

}  // namespace trireme::topologies
