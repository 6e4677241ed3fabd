// What it runs on: GPUs of one kind in nodes, nodes in a fabric, as a Boost.Graph graph of one node
// type and of the fabric (nodes repeat, so 131,072 GPUs need no more than a few hundred vertices).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/units.h"
#include "topologies/nccl_settings.h"

namespace trireme::topologies {

enum class Precision { kFp32, kTf32, kBf16, kFp16, kFp8, kFp4 };

struct Gpu {
  std::string name;            // "H100-SXM5-80GB"
  std::string arch;            // "Hopper"
  int compute_capability = 0;  // 90; AMD: gfx number
  std::map<Precision, FlopPerSecond> peak_dense;
  Bytes memory;  // what nvidia-smi shows as total
  BytesPerSecond memory_bandwidth;
  Bytes l2;
  int multiprocessors = 0;
  double power_watts = 0;  // the limit it runs under
  double full_power_watts =
      0;  // the limit of the unthrottled part; equal unless the card is power limited
  std::map<Precision, FlopPerSecond>
      sustained_matmul;           // best measured large product, where published
  BytesPerSecond nvlink_per_gpu;  // NVLink or xGMI, one direction, all links; 0 without
  int nvlink_links = 0;
  int pcie_generation = 0;
  BytesPerSecond pcie;  // raw, one direction
  // false: its stock driver refuses peer access over PCIe (GeForce since the 30 series)
  bool peer_to_peer = true;
  std::vector<std::string> aliases;
  std::string source;
};

struct NodeLayout;  // topologies/node_layout.h

enum class DeviceKind { kGpu, kNvSwitch, kPcieSwitch, kCpu, kNic, kLeaf, kSpine, kCore };

// GPUs that share the fast in-node fabric, their NICs, and how both hang together. Ranks are laid
// out node by node.
struct Node {
  std::string name;
  int gpus = 0;
  int nvlink_domain =
      0;  // GPUs that reach each other over NVLink or xGMI; 72 for an NVL72 rack; 1 = none
  enum class Fabric { kNvSwitch, kMesh, kPairs, kCubeMesh, kPcie } fabric = Fabric::kNvSwitch;
  BytesPerSecond nvlink_per_gpu;  // one direction, all links together
  Seconds nvlink_latency;
  int nvlink_links = 0;
  BytesPerSecond pcie_per_gpu;  // one direction
  BytesPerSecond socket_link;   // between the CPU sockets
  bool peer_to_peer = true;     // false: GPUs without links go through host memory
  int sockets = 2;
  int gpus_per_pcie_switch = 2;  // GPUs (and their NICs) below one PCIe switch
  std::string cpu = "intel";     // "intel", "amd" or "arm": NCCL's constants depend on it
  int nics = 0;
  BytesPerSecond nic;  // one NIC, one direction, line rate
  Seconds nic_latency;
  Bytes host_memory;  // 0: what its GPUs usually stand beside (planner/cost/host_machine.cc)
  // Which GPU and NIC hangs where, where the counts above do not say it; null: they do.
  std::shared_ptr<const NodeLayout> layout;
};

// Nodes that are alike, in a cluster whose nodes are not all alike.
struct NodeGroup {
  Gpu gpu;
  Node node;
  std::int64_t nodes = 1;
};

// A level of the network above its units, bottom up: pods below core switches, sites of a wide-area
// link. What its nodes send beyond it goes through links of its own.
struct NetworkLevel {
  std::string name;                  // "pod", "site"
  std::int64_t nodes = 1;            // below one of it
  std::vector<int> part_nodes = {};  // of each, where they are unlike; empty: `nodes` each
  double oversubscription = 1.0;     // what its nodes' NICs carry over what leaves it
  BytesPerSecond out;  // what leaves one of `nodes` nodes, one direction; 0: by oversubscription
  Seconds latency;     // from one of it to the next, beside the levels below
};

// Leaf and spine of the network between nodes. Rails: NIC i of every node of a unit is on leaf i.
// Dragonfly: units are its groups, each linked to every other; nodes of a torus have their NICs on
// their neighbours', two a dimension.
struct Network {
  std::string name;  // "NDR InfiniBand", "EFA v2": also the key of its corrections
  enum class Kind {
    kNone,
    kRailOptimised,
    kFatTree,
    kEthernet,
    kDragonfly,
    kTorus
  } kind = Kind::kRailOptimised;
  int nodes_per_unit = 32;        // nodes below one set of leaves
  std::vector<int> unit_nodes;    // of each unit, where they are unlike; empty: nodes_per_unit each
  double oversubscription = 1.0;  // leaf down / leaf up
  Seconds switch_latency;         // one switch, port to port
  std::vector<NetworkLevel> levels;  // above the units
  std::vector<int> torus;            // nodes along each dimension, the fastest first
};

struct Cluster {
  std::string name;
  Gpu gpu;
  Node node;
  Network network;
  std::int64_t nodes = 1;
  std::int64_t gpus = 0;  // in use: nodes * node.gpus, or fewer when narrowed by --gpus
  NcclSettings nccl;
  // Unlike nodes, in the order of their ranks; empty: all are `node` with `gpu`. With groups `gpu`
  // and `node` are what all of them keep up with, and topologies/node_groups.h says what is where.
  std::vector<NodeGroup> groups;
  int viewed = -1;  // the group that `gpu` and `node` are of, where only its ranks are asked about
};

std::vector<std::string> cluster_preset_names();
// `--cluster`: a preset with a node count ("dgx-h100x16"; without a count, one node), by its name,
// a cloud's ("p5.48xlargex16") or, alone, its card's ("h100"); so many GPUs ("128xH100"); or a
// topology file (docs/topology_format.md). Throws Error.
Cluster load_cluster(const std::string& name_or_path);
// Nodes of `gpus` GPUs each, with their share of NICs. Throws Error when a node has fewer.
Cluster with_gpus_per_node(Cluster cluster, int gpus);
// The first `gpus`; of racks as many of each, if they divide. Throws Error: there are fewer.
Cluster narrowed(Cluster cluster, std::int64_t gpus);
const std::vector<Gpu>& gpu_presets();
// The preset of that name or of a common spelling of it, as the driver's; nullptr: there is none.
const Gpu* known_gpu(const std::string& name);
// A GPU by its preset name or a common spelling of it ("A100-80GB", "H100-96GB(HBM2e,500W)").
// Throws Error.
const Gpu& find_gpu(const std::string& name, const std::string& where);

// A communicating group, described without listing its ranks: `ranks` members, `ranks_per_node` of
// them in each node (in each NVLink domain), `stride` ranks apart. Groups of one axis are alike,
// and `concurrent` of them that share the same NICs run at the same time. Where a group's nodes
// hold unlike numbers of its members, `ranks_per_node` is their mean, rounded up.
struct GroupShape {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 1;
  std::int64_t stride = 1;
  std::int64_t concurrent_per_node = 1;  // groups of this kind whose members share one node
  std::int64_t fewest_per_node = 0;  // in the node that holds fewest; 0: as many as in the others
  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};
// The shape of an axis whose neighbours are `stride` ranks apart and that has `degree` members.
GroupShape group_shape(const Cluster& cluster, std::int64_t degree, std::int64_t stride);
// The same where ranks repeat every `period` ranks, more than degree * stride of them or fewer (the
// first and the last stage of a pipeline).
GroupShape group_shape(const Cluster& cluster, std::int64_t degree, std::int64_t stride,
                       std::int64_t period);

}  // namespace trireme::topologies
