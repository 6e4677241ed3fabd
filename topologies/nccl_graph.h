// What NCCL's graph search finds for a group: channels and their speeds (NCCL's
// src/graph/search.cc, in closed form for the fabrics that presets describe), and the raw rates
// behind them.
#pragma once

#include "topologies/cluster.h"
#include "topologies/nccl_constants.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {

// How GPUs of one node reach each other within the group.
enum class IntraPath {
  kNone,        // one member a node
  kNvlink,      // NVSwitch, mesh, cube mesh, or a bridged pair
  kPciePair,    // below one PCIe switch or host bridge
  kPciePeer,    // peer to peer across host bridges
  kHostNode,    // through host memory, one socket
  kHostSystem,  // through host memory, across sockets
};

struct NcclGraph {
  int ranks = 1;
  int ranks_per_node = 1;
  int nodes = 1;
  IntraPath path = IntraPath::kNone;
  NcclGeneration generation = NcclGeneration::kAmpere;
  bool amd_cpu = false;
  double intra_total = 0.0;  // GB/s out of one GPU within the node, as NCCL books the links
  double line_share = 1.0;   // of those links' line rate that NCCL books
  double net_total =
      0.0;  // GB/s line rate of the NICs that the group has to itself in one node; 0: one node
  double net_line = 0.0;  // GB/s of those NICs, whatever PCIe lets through to them
  double net_rung = 0.0;  // GB/s of those NICs as NCCL's ladder books them
  int channels = 1;       // of the ring graph
  double channel_speed = 0.0;
  int tree_channels =
      1;  // of the tree graph, whose in-node speed may be twice that of its network part
  double tree_intra = 0.0;
  double tree_inter = 0.0;
  int nvls_heads = 0;  // 0: NVLS impossible
  double nvls_intra = 0.0;
  double nvls_inter = 0.0;
  bool uneven = false;                     // nodes hold unlike numbers of members
  unsigned algorithms = 0, protocols = 0;  // that NCCL may use, by bit; 0: all
  double step_latency = 1.0;               // of a hop within the node, relative to the usual one
  double hop_extra_us = 0.0;     // of a message between nodes, beside the network's usual one
  double node_stride = 1.0;      // nodes between neighbours of the group
  double uplink_slowdown = 1.0;  // of neighbour traffic by what it meets above the leaves
  double far_us = 0.0;           // of the farthest message beside hop_extra_us, one way
  double ring_far_us = 0.0;      // the same, mean of a ring's hops between nodes
  friend bool operator==(const NcclGraph&, const NcclGraph&) = default;
};

// Rates in GB/s. Microseconds to compute at most; no allocation.
NcclGraph nccl_graph(const Cluster& cluster, const GroupShape& group);

// GB/s that `ranks` GPUs of the node can pass round in rings, each way out of one GPU, as NCCL
// books the links.
double ring_rate(const Cluster& cluster, int ranks, IntraPath path, std::int64_t stride = 1);
IntraPath intra_path(const Cluster& cluster, int ranks, std::int64_t stride);
// Whether an adapter reads the memory of a GPU `apart` from it itself: NCCL lets it up to
// NCCL_NET_GDR_LEVEL. With Grace the processor's own link to the GPU counts as near.
bool gpu_direct(const Cluster& cluster, Path apart);
// Rings over the first `ranks` GPUs of a DGX-1 V100 cube mesh, as its links allow.
int cube_mesh_rings(int ranks);

}  // namespace trireme::topologies
