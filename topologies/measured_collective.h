// The tables of a profile: collectives as measured on this machine.
#pragma once

#include <optional>
#include <string_view>

#include "topologies/collective_cost.h"

namespace trireme::topologies {

// "all_reduce", "all_gather", …: the names in profiles and on the command line.
std::string_view to_string(Collective collective);
// The collective of a name, also as nccl-tests and PyTorch spell it ("alltoall", "sendrecv",
// "p2p").
std::optional<Collective> find_collective(std::string_view name);

// The profile's table for this collective over such a group of this cluster; null when it has none.
// A group over nodes whose NICs other groups use at the same time is not what was measured.
const CollectiveTable* measured_table(const Profile& profile, const Cluster& cluster,
                                      Collective collective, const GroupShape& group);

// Seconds at `bytes`, between the measured sizes on a straight line in logarithms.
// Requires: bytes within the table's sizes.
double interpolated_seconds(const CollectiveTable& table, double bytes);

// Seconds by the fitted regimes: latency and rate of the one that `bytes` falls into.
double regime_seconds(const CollectiveTable& table, double bytes);

}  // namespace trireme::topologies
