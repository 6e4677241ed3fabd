// The topology file format (docs/topology_format.md): reading and writing GPUs, nodes, networks and
// clusters. The presets are written in it too. Every reader is strict: an unknown key, a bare
// number or a wrong unit is an Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/json_reader.h"
#include "topologies/cluster.h"

namespace trireme::topologies {

Gpu read_gpu(JsonReader& reader);
Network read_network(JsonReader& reader);
// `networks` are those that a file may name instead of describing one.
Cluster read_cluster(JsonReader& reader, const std::vector<Network>& networks);
// The networks that ship, by name.
const std::vector<Network>& network_presets();

// A whole topology file, as `topo import` writes it: reading it gives the same cluster.
nlohmann::ordered_json cluster_to_json(const Cluster& cluster);

std::string precision_name(Precision precision);
std::string fabric_name(Node::Fabric fabric);
std::string network_kind_name(Network::Kind kind);

}  // namespace trireme::topologies
