// Reads topologies as machines print them: NCCL's and RCCL's topology XML, `nvidia-smi topo -m`,
// `rocm-smi --showtopo`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

struct ImportOptions {
  std::string gpu;      // a preset's name; empty: told by the file, or Error
  std::string network;  // a network's name; empty: the GPU's usual one
  std::int64_t nodes = 1;
  BytesPerSecond nic;  // one NIC; 0: told by the file, or the GPU's usual one
};

struct Imported {
  Cluster cluster;
  std::vector<std::string> completed;  // what the file did not say, and where it was taken from
};

// What a file tells about one node, whatever its format.
struct NodeFacts {
  int gpus = 0;
  std::string gpu;                      // a name that find_gpu knows; empty: not told
  std::vector<std::vector<int>> links;  // NVLink or xGMI between GPUs, per pair
  std::vector<int> switch_links;        // to NVSwitches, per GPU
  bool links_told = false;
  std::vector<int> pcie_group;  // GPUs below one PCIe switch share a number
  std::vector<int> socket;      // likewise one CPU socket
  int nics = 0;
  bool nics_told = false;
  BytesPerSecond nic;  // 0: not told
  std::string cpu;     // empty: not told
};

// `name` names the file in errors and the cluster. Throws Error: not a known format, or not enough
// to go by.
Imported import_topology(const std::string& text, const std::string& name,
                         const ImportOptions& options);

NodeFacts read_topology_xml(const std::string& text, const std::string& name);
NodeFacts read_topology_matrix(const std::string& text, const std::string& name);

}  // namespace trireme::topologies
