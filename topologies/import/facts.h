// What a file tells, whatever its format, before it is completed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topologies/import/import.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {

struct NicFacts {
  std::string name;
  BytesPerSecond rate;  // 0: not told
};

struct NodeFacts {
  int gpus = 0;
  std::string gpu;  // a name that find_gpu knows; empty: not told
  std::string
      chip;  // what the file says of a card that no preset is: "gfx906", "PCI device 10de:15f9"
  bool gpu_sure = false;          // by its device id or name, not by what such nodes usually hold
  LinkCounts links;               // NVLink or xGMI between GPUs
  bool links_are_rates = false;   // GB/s as NCCL books them, where the file tells no counts
  std::vector<int> switch_links;  // to NVSwitches, per GPU
  bool links_told = false;
  std::vector<Place> gpu_places;  // empty: not told
  bool switches_told = true;      // false: sockets are known, the PCIe switches below them not
  std::vector<NicFacts> nics;
  std::vector<Place> nic_places;  // as many as NICs, or none
  bool nics_told = false;
  BytesPerSecond pcie;               // of one GPU; 0: not told
  std::string cpu;                   // empty: not told
  std::optional<bool> peer_to_peer;  // none: not told
  std::int64_t nodes = 0;            // 0: not told
  std::string family;  // of the network: "infiniband", "roce", "efa", "tcp"; empty: not told
  std::vector<std::pair<std::string, std::string>> nccl;  // NCCL's variables as they are set
  std::vector<std::string> remarks;
  std::vector<Doubt> doubts;
};

// Switches and the nodes below them.
struct NetworkFacts {
  struct Unit {
    std::string name;
    std::vector<std::string> nodes;
    std::vector<std::string> above;  // switches above it, bottom up, where there is a tree of them
  };
  std::vector<Unit> units;        // in the order of the file, those of one switch side by side
  int levels = 1;                 // of switches above the nodes
  int nics_per_node = 0;          // 0: not told
  bool rails = false;             // a node's adapters are on different leaves
  BytesPerSecond nic;             // 0: not told
  double oversubscription = 0.0;  // 0: not told
  std::vector<std::string> remarks;
};

NodeFacts read_matrix(const std::string& text, const std::string& name);
NodeFacts read_rocm_tables(const std::string& text, const std::string& name);
NodeFacts read_nccl_debug(const std::string& text, const std::string& name);
NodeFacts read_xml(const std::string& text, const std::string& name);  // NCCL's and lstopo's

NetworkFacts read_slurm_conf(const std::string& text, const std::string& name);
NetworkFacts read_switch_yaml(const std::string& text, const std::string& name);
NetworkFacts read_ibnetdiscover(const std::string& text, const std::string& name);

// How far apart devices are as a tool printed it, to the places that say so.
struct DevicePaths {
  std::vector<std::string> names;
  std::vector<std::vector<std::optional<Path>>> paths;  // none: not told (NVLink hides it)
  std::vector<std::string> memory;                      // NUMA node or CPUs; empty: not told
};
// What contradicts itself goes into `remarks`, what cannot be in a sound machine into `doubts`.
std::vector<Place> place_devices(const DevicePaths& devices, std::vector<std::string>& remarks,
                                 std::vector<Doubt>& doubts);

// The first card that a text names as the driver does ("NVIDIA H100 80GB HBM3"): its preset, or the
// name of one that is none ("GPU 0: NVIDIA Graphics Device").
struct NamedCard {
  const Gpu* gpu = nullptr;
  std::string unknown;
};
NamedCard card_named_in(const std::string& text);

// The card with this PCI device id ("0x10de", "0x2330"); empty: unknown.
std::string card_of_pci_id(const std::string& vendor, const std::string& device);

// Leaves the hosts of a job, at least one, below the leaves that they hang on, and says how many
// are below each. Throws Error: a host that the network does not have, or twice.
void keep_hosts(NetworkFacts& facts, const std::vector<std::string>& hosts,
                const std::string& name);

// Makes the hosts of each unit NVLink domains of a rack of so many hosts. Gives the hosts of one
// domain; what is left out is among the remarks.
int join_trays(NetworkFacts& facts, int trays_of_rack);

}  // namespace trireme::topologies
