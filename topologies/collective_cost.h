// How long a collective takes alone on its group. Family nccl chooses algorithm and protocol by
// size with NCCL's own model (tuning.cc) and per-network corrections; the other families are
// the textbook's (textbook_cost.h).
#pragma once

#include <string>

#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::topologies {

enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kSendRecv };
enum class CostFamily { kLogP, kRing, kTree, kHierarchical, kNccl };

struct CollectiveTime {
  Seconds time;
  std::string_view algorithm;  // "ring", "tree", "nvls", "nvls_tree", "p2p", …
  std::string_view protocol;   // "LL", "LL128", "Simple"
  std::string bottleneck;      // the link that limits it, in words; empty when asked not to say
  bool measured = false;       // from the profile's table of this group, not from the model
};

// `size` follows nccl-tests' size column: all-reduce S per rank; all-gather and reduce-scatter the
// gathered total; all-to-all the whole local buffer; broadcast and send_recv S. A group of one rank
// takes no time.
CollectiveTime collective_time(const Cluster& cluster, const Profile& profile,
                               Collective collective, const GroupShape& group, Bytes size,
                               CostFamily family = CostFamily::kNccl, bool say_bottleneck = true);

// busbw / algbw of nccl-tests for `ranks`.
double bus_bandwidth_factor(Collective collective, std::int64_t ranks);

}  // namespace trireme::topologies
