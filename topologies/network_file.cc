// The `network` of a topology file.
#include <nlohmann/json.hpp>

#include "topologies/file_fields.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

constexpr NameTable<Network::Kind, 6> kNetworkKinds = {
    {{"none", Network::Kind::kNone},
     {"rail_optimised", Network::Kind::kRailOptimised},
     {"fat_tree", Network::Kind::kFatTree},
     {"ethernet", Network::Kind::kEthernet},
     {"dragonfly", Network::Kind::kDragonfly},
     {"torus", Network::Kind::kTorus}}};

// An array of whole numbers.
std::vector<int> read_counts(JsonReader& reader, const std::string& key, int low, int high,
                             std::size_t most = 100'000) {
  const nlohmann::json& list = reader.raw(key);
  if (!list.is_array() || list.size() > most) {
    reader.fail(key, "must be an array of at most " + std::to_string(most) + " whole numbers");
  }
  std::vector<int> counts;
  for (const nlohmann::json& entry : list) {
    if (!entry.is_number_integer() || entry < low || entry > high) {
      reader.fail(key, "must hold whole numbers from " + std::to_string(low) + " to " +
                           std::to_string(high));
    }
    counts.push_back(entry.get<int>());
  }
  return counts;
}

// What is above the units, bottom up.
std::vector<NetworkLevel> read_levels(JsonReader& reader, const Network& network) {
  std::vector<NetworkLevel> levels;
  std::int64_t below = network.nodes_per_unit;
  for (JsonReader& entry : reader.objects("levels")) {
    NetworkLevel level;
    level.name = entry.text("name");
    level.nodes = entry.integer("nodes", 1, 10'000'000);
    if (level.nodes < below || level.nodes % below != 0) {
      entry.fail("nodes", "is " + std::to_string(level.nodes) + "; it must be a multiple of the " +
                              std::to_string(below) + " nodes of the level below");
    }
    if (entry.has("out") == entry.has("oversubscription")) {
      entry.fail("out",
                 "or 'oversubscription' says what leaves a " + level.name + "; give one of them");
    }
    if (entry.has("out")) {
      level.out = positive_bandwidth(entry, "out");
    } else {
      level.oversubscription = entry.number("oversubscription", 1.0, 1e6);
    }
    level.latency = entry.duration("latency");
    entry.finish();
    below = level.nodes;
    levels.push_back(std::move(level));
  }
  if (levels.empty() || levels.size() > 4) {
    reader.fail("levels", "must be 1 to 4");
  }
  return levels;
}

}  // namespace

std::string network_kind_name(Network::Kind kind) {
  return name_of(kind, kNetworkKinds);
}

Network read_network(JsonReader& reader) {
  Network network;
  network.name = reader.text("name");
  network.kind = parse_name(reader, "kind", kNetworkKinds);
  if (network.kind == Network::Kind::kTorus) {
    network.torus = read_counts(reader, "torus", 1, 100'000, 8);
    if (network.torus.empty()) {
      reader.fail("torus", "must hold the nodes along each dimension, such as [4, 4, 4]");
    }
    network.switch_latency = reader.duration("switch_latency");
    network.nodes_per_unit = static_cast<int>(kNodesMost);  // nothing is above the nodes' routers
  } else if (network.kind != Network::Kind::kNone) {
    network.nodes_per_unit = static_cast<int>(reader.integer("nodes_per_unit", 1, 1'000'000));
    if (reader.has("unit_nodes")) {
      network.unit_nodes = read_counts(reader, "unit_nodes", 1, 1'000'000);
    }
    network.oversubscription = reader.number("oversubscription", 1.0, 1000.0);
    network.switch_latency = reader.duration("switch_latency");
    if (reader.has("levels")) {
      network.levels = read_levels(reader, network);
    }
  }
  reader.ignore("source");
  reader.finish();
  return network;
}

}  // namespace trireme::topologies
