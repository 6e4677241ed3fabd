// The clusters that ship (clusters.json), and `--cluster`'s one door.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "core/json_reader.h"
#include "topologies/cluster.h"
#include "topologies/embedded.h"
#include "topologies/name_match.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

constexpr std::int64_t kNodesMax = 10'000'000;
constexpr std::size_t kShownOfName = 80;

struct Presets {
  std::vector<Network> networks;
  std::vector<Cluster> clusters;
  // By normalised name: their own, those of clouds, and those of their cards alone.
  struct Place {
    std::size_t cluster = 0;
    bool card = false;
  };
  std::map<std::string, Place> places;
};

// The texts of a preset's list, such as "also"; the topology files that people write have none.
std::vector<std::string> names_in(JsonReader& reader, const char* key) {
  return reader.has(key) ? reader.raw(key).get<std::vector<std::string>>()
                         : std::vector<std::string>();
}

Presets read_presets() {
  const nlohmann::json document = parse_json(embedded_text("clusters"), "clusters.json");
  JsonReader reader(document, "clusters.json");
  Presets presets;
  for (JsonReader& network : reader.objects("networks")) {
    presets.networks.push_back(read_network(network));
  }
  for (JsonReader& cluster : reader.objects("clusters")) {
    const auto add = [&](const std::string& name, bool card) {
      const Presets::Place place{presets.clusters.size(), card};
      if (!presets.places.emplace(normalized_name(name), place).second) {
        cluster.fail("name", "is " + name + ", which another has too");
      }
    };
    add(cluster.text("name"), false);
    for (const std::string& name : names_in(cluster, "also")) {
      add(name, false);
    }
    for (const std::string& name : names_in(cluster, "cards")) {
      add(name, true);
    }
    presets.clusters.push_back(read_cluster(cluster, presets.networks));
  }
  reader.finish();
  return presets;
}

const Presets& presets() {
  static const Presets shipped = read_presets();
  return shipped;
}

// By its name or one that a cloud or its card has, marks and capitals aside.
const Cluster* find_preset(std::string_view name) {
  const auto found = presets().places.find(normalized_name(name));
  return found == presets().places.end() ? nullptr : &presets().clusters[found->second.cluster];
}

Cluster with_nodes(const Cluster& preset, std::int64_t nodes, const std::string& name) {
  if (nodes < 1 || nodes > kNodesMax) {
    throw Error("--cluster", "'" + name + "' asks for " + std::to_string(nodes) +
                                 " nodes; 1 to 10000000 are possible");
  }
  Cluster cluster = preset;
  if (nodes > 1 && (cluster.node.nics == 0 || cluster.network.kind == Network::Kind::kNone)) {
    throw Error("--cluster",
                "'" + name + "': " + preset.name + " has no network, so it is one node only");
  }
  // As it was asked for, but by the name that the preset is known by.
  cluster.name = name.starts_with(preset.name) ? name
                 : nodes == 1                  ? preset.name
                                               : preset.name + "x" + std::to_string(nodes);
  cluster.nodes = nodes;
  cluster.gpus = nodes * cluster.node.gpus;
  return cluster;
}

// "4xp5.48xlarge" may mean nodes or GPUs, unless the name is the card's ("8xl40s").
void refuse_count_of_nodes(const std::string& name, std::string_view stem, const Cluster& preset,
                           std::int64_t count) {
  const bool card = presets().places.at(normalized_name(stem)).card ||
                    normalized_name(preset.gpu.name).starts_with(normalized_name(preset.name));
  if (!card && preset.node.gpus > 1 && preset.network.kind != Network::Kind::kNone) {
    const std::int64_t nodes = (count - 1) / preset.node.gpus + 1;
    throw Error("--cluster", "'" + name + "' may mean nodes or GPUs: " + std::string(stem) + "x" +
                                 std::to_string(count) + " is so many nodes of " +
                                 std::to_string(preset.node.gpus) + ", " + std::string(stem) + "x" +
                                 std::to_string(nodes) + " with --gpus " + std::to_string(count) +
                                 " so many GPUs");
  }
}

// "8xH100", as machines are offered: so many GPUs of whole nodes, or the first ones of one node.
std::optional<Cluster> some_gpus(const std::string& name) {
  std::int64_t gpus = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), gpus);
  const auto digits = static_cast<std::size_t>(end - name.data());
  if (failed != std::errc() || gpus < 1 || digits >= name.size() || name[digits] != 'x') {
    return std::nullopt;
  }
  const Cluster* preset = find_preset(std::string_view(name).substr(digits + 1));
  if (preset == nullptr) {
    return std::nullopt;
  }
  refuse_count_of_nodes(name, std::string_view(name).substr(digits + 1), *preset, gpus);
  const std::int64_t node = preset->node.gpus;
  if (gpus > node && gpus % node != 0) {
    throw Error("--cluster", "'" + name + "': nodes of " + preset->name + " have " +
                                 std::to_string(node) + " GPUs; a multiple of them would be right");
  }
  return narrowed(with_nodes(*preset, std::max<std::int64_t>(1, gpus / node), name), gpus);
}

// "h100x8" may mean GPUs or nodes.
void refuse_card_with_count(const std::string& name, std::string_view stem, const Cluster& preset,
                            std::int64_t count) {
  if (count > 0 && presets().places.at(normalized_name(stem)).card) {
    const std::string number = std::to_string(count);
    throw Error("--cluster", "'" + name + "' may mean GPUs or nodes: " + number + "x" +
                                 std::string(stem) + " is so many GPUs, " + preset.name + "x" +
                                 number + " so many nodes of " + std::to_string(preset.node.gpus));
  }
}

bool looks_like_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

}  // namespace

const std::vector<Network>& network_presets() {
  return presets().networks;
}

std::vector<std::string> cluster_preset_names() {
  std::vector<std::string> names;
  for (const Cluster& cluster : presets().clusters) {
    names.push_back(cluster.name);
  }
  return names;
}

namespace {

// A file that is no JSON is what a machine or a switch prints.
void refuse_printed_machine(const std::string& path) {
  std::error_code failed;  // of a name that no file can have
  if (!std::filesystem::is_regular_file(path, failed)) {
    return;
  }
  std::ifstream file(path);
  char first = 0;
  if (file >> first && first != '{' && first != '[') {
    throw Error(path, "is no topology file (NAME.json); 'trireme topo import " + path +
                          " -o topology.json' makes one of what a machine or a switch prints");
  }
}

}  // namespace

Cluster load_cluster(const std::string& name_or_path) {
  const bool is_text = name_or_path.starts_with('{');  // of a file
  if (is_text || looks_like_path(name_or_path)) {
    const std::string where = is_text ? "--cluster" : name_or_path;
    if (!is_text) {
      refuse_printed_machine(where);
    }
    const nlohmann::json document =
        is_text ? parse_json(name_or_path, where) : read_json_file(where);
    JsonReader reader(document, where);
    if (reader.text("format") != "trireme.topology/1") {
      reader.fail("format", "must be 'trireme.topology/1'");
    }
    return read_cluster(reader, presets().networks);
  }
  if (const Cluster* preset = find_preset(name_or_path)) {
    return with_nodes(*preset, 1, name_or_path);
  }
  if (const auto some = some_gpus(name_or_path)) {
    return *some;
  }
  // "dgx-h100x16"; also "mi300x4", where the x belongs to the name.
  const std::size_t digits = name_or_path.find_last_not_of("0123456789") + 1;
  std::int64_t nodes = 0;
  const auto parsed = std::from_chars(name_or_path.data() + digits,
                                      name_or_path.data() + name_or_path.size(), nodes);
  if (digits > 1 && digits < name_or_path.size() && name_or_path[digits - 1] == 'x' &&
      parsed.ec == std::errc()) {
    for (const std::size_t length : {digits - 1, digits}) {
      const std::string_view stem = std::string_view(name_or_path).substr(0, length);
      if (const Cluster* preset = find_preset(stem)) {
        refuse_card_with_count(name_or_path, stem, *preset, nodes);
        return with_nodes(*preset, nodes, name_or_path);
      }
    }
  }
  const std::string stem = digits > 1 && name_or_path[digits - 1] == 'x'
                               ? name_or_path.substr(0, digits - 1)
                               : name_or_path;
  std::error_code failed;
  if (std::filesystem::is_directory(name_or_path, failed)) {
    throw Error(name_or_path, "is a folder; a topology file (NAME.json) would be right");
  }
  refuse_printed_machine(name_or_path);
  throw Error("--cluster",
              "'" + name_or_path.substr(0, kShownOfName) +
                  "' is neither a preset with a node count (such as dgx-h100x16) nor a " +
                  "topology file (NAME.json); the nearest presets are " +
                  nearest_names(stem, cluster_preset_names()));
}

}  // namespace trireme::topologies
