// Reads machines as their own tools print them: nodes from nvidia-smi topo -m, rocm-smi --showtopo,
// NCCL's and RCCL's topology XML, lstopo's XML and NCCL_DEBUG=INFO logs; networks from Slurm's
// topology.conf and topology.yaml, topograph's models and ibnetdiscover.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

struct ImportOptions {
  std::optional<Gpu> gpu;          // none: told by the file, or Error
  std::string network;             // a network's name; empty: the GPU's usual one
  std::int64_t nodes = 0;          // 0: told by the file, or 1
  std::vector<std::string> hosts;  // those of a network's that the job has; empty: all, or `nodes`
  BytesPerSecond nic;              // one NIC; 0: told by the file, or the GPU's usual one
};

// What a file says that looks wrong in the machine itself.
struct Doubt {
  std::string where;   // "GPU3", "NIC1", "peer access"
  std::string detail;  // what is, and what should be
  std::string fix;
};

struct Imported {
  Cluster cluster;
  std::vector<std::string> remarks;  // what the file did not say, and where it was taken from; what
                                     // it says that was understood in one of several ways
  std::vector<Doubt> doubts;
};

// `name` names the file in errors and the cluster. Throws Error: not a known format, or not enough
// to go by.
Imported import_topology(const std::string& text, const std::string& name,
                         const ImportOptions& options);

// "node[1-3,7],login" as Slurm writes lists of hosts. Throws Error on brackets that do not close or
// more than a million names.
inline constexpr std::size_t kHostsMost = 262'144;  // of a list, and of a whole network
std::vector<std::string> host_list(const std::string& text, const std::string& where);

// The matrix of `nvidia-smi topo -m` as the node's layout says it: what was imported from one
// reads the same.
std::string matrix_text(const Node& node);

}  // namespace trireme::topologies
