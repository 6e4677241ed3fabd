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
// A card by its name, or by a file that holds it: a GPU object, or a topology file with one. Throws
// Error, naming `where` or the file.
Gpu find_or_read_gpu(const std::string& name_or_path, const std::string& where);
Network read_network(JsonReader& reader);
// `networks` are those that a file may name instead of describing one.
Cluster read_cluster(JsonReader& reader, const std::vector<Network>& networks);
// The networks that ship, by name.
const std::vector<Network>& network_presets();

// A whole topology file, as `topo import` writes it: reading it gives the same cluster.
nlohmann::ordered_json cluster_to_json(const Cluster& cluster);

// Raw rate of PCIe lanes, one direction: generation 3 is 8 GT/s with 128b/130b coding, and each
// later one doubles (generation 6: 121 GB/s of 16 lanes after its flit overhead, as accelerators'
// data sheets count it).
BytesPerSecond pcie_rate(int generation, int lanes);

std::string precision_name(Precision precision);
std::string fabric_name(Node::Fabric fabric);
std::string network_kind_name(Network::Kind kind);

}  // namespace trireme::topologies
