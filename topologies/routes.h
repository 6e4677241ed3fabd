// Routes through the cluster graph: which links a message between two GPUs crosses, its bottleneck
// and latency.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

enum class LinkKind { kOther, kFast, kPcie, kAdapter, kUplink };

struct Hop {
  std::string link;  // "GPU3 -> NVSwitch", "NIC3 -> leaf3", …
  BytesPerSecond bandwidth;
  Seconds latency;
  LinkKind kind = LinkKind::kOther;  // told by group_bottleneck
};
struct Route {
  std::vector<Hop> hops;
  BytesPerSecond bottleneck;
  Seconds latency;
  std::string bottleneck_link;
  LinkKind limit = LinkKind::kOther;  // what the bottleneck is
};

// Between two ranks (0-based, node by node). ECMP picks among equal spines are drawn from `seed`.
Route route(const Cluster& cluster, std::int64_t from_rank, std::int64_t to_rank,
            std::uint64_t seed = 0);
// The slowest link that a ring over the group crosses, shared by the concurrent groups.
Route group_bottleneck(const Cluster& cluster, const GroupShape& group);

}  // namespace trireme::topologies
