// The `network` of a topology file.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "topologies/cluster_graph.h"
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

// The node at which a part of `above` ends within a part of what is below, among those that either
// lists; 0: none.
std::int64_t torn_at(const NetworkLevel& above, const NetworkLevel& below) {
  const std::int64_t listed =
      std::min(kNodesMost,
               std::accumulate(below.part_nodes.begin(), below.part_nodes.end(), std::int64_t{0}));
  std::int64_t above_end = 0;
  std::int64_t below_end = 0;
  std::int64_t part = 0;
  for (std::int64_t i = 0;
       above_end <= kNodesMost && (i < std::ssize(above.part_nodes) || above_end < listed); ++i) {
    above_end += part_size(above, i);
    if (i >= std::ssize(above.part_nodes) && above_end > listed) {
      return 0;
    }
    while (below_end < above_end) {
      below_end += part_size(below, part++);
    }
    if (below_end != above_end) {
      return above_end;
    }
  }
  return 0;
}

// What is above the units, bottom up.
std::vector<NetworkLevel> read_levels(JsonReader& reader, const Network& network) {
  std::vector<NetworkLevel> levels;
  NetworkLevel below;
  below.nodes = network.nodes_per_unit;
  below.part_nodes = network.unit_nodes;
  for (JsonReader& entry : reader.objects("levels")) {
    NetworkLevel level;
    level.name = entry.text("name");
    level.nodes = entry.integer("nodes", 1, 10'000'000);
    if (level.nodes < below.nodes || level.nodes % below.nodes != 0) {
      entry.fail("nodes", "is " + std::to_string(level.nodes) + "; it must be a multiple of the " +
                              std::to_string(below.nodes) + " nodes of the level below");
    }
    if (entry.has("part_nodes")) {
      level.part_nodes = read_counts(entry, "part_nodes", 1, 1'000'000);
    }
    if (const std::int64_t node = torn_at(level, below); node > 0) {
      entry.fail(level.part_nodes.empty() ? "nodes" : "part_nodes",
                 "a " + level.name + " ends at node " + std::to_string(node) +
                     ", within a part of the level below; parts of a level hold whole ones");
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
    below = level;
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
