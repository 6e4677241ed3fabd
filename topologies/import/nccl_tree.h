// The tree that NCCL prints of a machine ("=== System : maxBw 48.0 totalBw 370.8 ===").
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme::topologies {

struct NcclTree {
  struct Device {
    std::string id;                  // its bus id, or the number of a net, as device_id gives it
    std::vector<std::string> above;  // CPU, then switches from the root port down
    double pcie = 0.0;  // GB/s that NCCL books for the narrowest PCIe link on the way; 0: not told
  };
  std::vector<Device> gpus, nets;
  std::map<std::string, double> net_rates;  // GB/s, by id
  // GB/s of NVLink or xGMI, both ways, between GPUs; of a GPU to NVSwitches.
  std::map<std::pair<std::string, std::string>, double> links;
  std::map<std::string, double> switched;
};

// The first such tree of a log, by the rank that began to print it; empty: there is none.
NcclTree read_nccl_tree(const std::string& text);

// "GPU/0-4e000" and "GPU/4E000" are the same device; newer versions write the system before the bus
// id.
std::string device_id(const std::string& word);

}  // namespace trireme::topologies
