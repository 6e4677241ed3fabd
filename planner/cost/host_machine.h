// The host of a node: its memory, and the ways between it and the GPUs.
#pragma once

#include "core/units.h"
#include "planner/plan/job.h"

namespace trireme::planner {

// One node's host, from the job's own words or what its GPUs usually stand in, as each GPU finds it
// while all that the job has of the node do the same.
struct HostMachine {
  double memory_gib = 0;
  double memory_rate = 0;  // bytes a second of all its channels
  double link_rate = 0;    // bytes a second between one GPU and pinned memory, one direction
  double both_rate = 0;    // each way while the other way is in use
  double nvme_rate = 0;    // bytes a second of its drives
};
HostMachine host_of(const Job& job);

// GPUs of a node that the cluster has in use, and those beside the socket that has most of them.
double ranks_of_node(const topologies::Cluster& cluster);
double ranks_of_socket(const topologies::Cluster& cluster);
// Sockets over which the usual host's memory is spread.
double sockets_of(const topologies::Cluster& cluster);

// Which ways between a GPU and its host are in use at once.
enum class HostWays { kOne, kBoth };
// Seconds of one copy between a GPU and pinned memory.
double host_copy_seconds(const HostMachine& host, Bytes bytes, HostWays ways);

}  // namespace trireme::planner
