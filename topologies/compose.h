// A cluster from what measurement rows say: the GPU's name, counts, and a few words about the
// network.
#pragma once

#include <cstdint>
#include <string>

#include "topologies/cluster.h"

namespace trireme::topologies {

// Reads phrases such as "8x200 Gb/s HDR IB", "4x100 Gb/s RoCE per node", "800 Gb/s per node", "400
// Gb/s RDMA per GPU", "4 Omni-Path 100G links/node", "EFA", and the names of known systems; what
// the words leave open is that GPU's usual node and network. `gpus_per_node` 0: the usual node's.
// Throws Error, naming `where`, on an unknown GPU, on counts beyond 1e8 GPUs or 1024 a node, and on
// a description of more than 1000 characters or with numbers beyond a million.
Cluster compose_cluster(const std::string& gpu_name, int gpus_per_node, std::int64_t gpus,
                        const std::string& description, const std::string& where = "gpu");

// The network preset of a family ("infiniband", "roce", "efa", "omni-path", "tcpx", "tcpxo", "tcp")
// with adapters of such a rate.
const Network& network_of_family(const std::string& family, double gbit, const Gpu& gpu);

// Of one adapter of the family.
Seconds nic_latency_of(const std::string& family);

// The usual node of a GPU: the first preset with it and the wanted size (0: any), else the first
// with it, else one of the same architecture (a V100 16 GB sits in the node of a V100 32 GB). A
// board of so few GPUs without switches is taken where `direct` says so: else they are some of a
// board with switches, if the card has one.
Cluster usual_node(const Gpu& gpu, int gpus_per_node, bool aws, bool direct = false);

}  // namespace trireme::topologies
