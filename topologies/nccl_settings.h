// NCCL's environment variables that decide how a collective runs: NCCL_ALGO, NCCL_PROTO,
// NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL,
// NCCL_CROSS_NIC. Meanings: NCCL's documentation, "Environment Variables".
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme::topologies {

// How far apart two devices of a node are, near to far, as `nvidia-smi topo -m` names it.
enum class Path { kSame, kSwitch, kTree, kBridge, kNode, kSystem };

struct NcclSettings {
  unsigned algorithms = 0;                 // bit by NcclAlgorithm; 0: all
  unsigned protocols = 0;                  // bit by NcclProtocol; 0: all
  int min_channels = 0, max_channels = 0;  // 0: NCCL's own
  bool peer_to_peer = true;                // false: NCCL_P2P_DISABLE=1 (or NCCL_P2P_LEVEL=LOC)
  // GPUDirect RDMA between a GPU and a NIC this far apart and nearer; the default is PXB.
  Path gdr_level = Path::kTree;
  int cross_nic = 2;  // 0: a ring keeps to one NIC rail; 1: it may change; 2: where that helps

  // What was said, as it was said: a topology file keeps it.
  std::vector<std::pair<std::string, std::string>> said;
};

// Whether it is one of the variables above.
bool is_nccl_setting(const std::string& name);
// Takes one variable. Throws Error, naming `where`: a variable that is not one of the above, or a
// value that it does not have.
void apply_nccl_setting(NcclSettings& settings, const std::string& name, const std::string& value,
                        const std::string& where);

}  // namespace trireme::topologies
