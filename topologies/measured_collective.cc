#include "topologies/measured_collective.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace trireme::topologies {

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kSendRecv:
      return "send_recv";
  }
  return "";
}

std::optional<Collective> find_collective(std::string_view name) {
  if (name == "alltoall") {
    return Collective::kAllToAll;
  }
  if (name == "sendrecv" || name == "p2p") {
    return Collective::kSendRecv;
  }
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kAllToAll, Collective::kBroadcast, Collective::kSendRecv}) {
    if (name == to_string(collective)) {
      return collective;
    }
  }
  return std::nullopt;
}

const CollectiveTable* measured_table(const Profile& profile, const Cluster& cluster,
                                      Collective collective, const GroupShape& group) {
  const bool one_node = group.ranks_per_node >= group.ranks;
  // On a switch any neighbours are alike; elsewhere only those that were measured.
  const bool alike =
      group.stride == 1 || (one_node && cluster.node.fabric == Node::Fabric::kNvSwitch);
  if (profile.collectives.empty() || !alike || (!one_node && group.concurrent_per_node > 1)) {
    return nullptr;
  }
  const std::string_view network = one_node ? "" : std::string_view(cluster.network.name);
  for (const CollectiveTable& table : profile.collectives) {
    if (table.ranks == group.ranks && table.operation == to_string(collective) &&
        std::min(table.ranks_per_node, table.ranks) ==
            std::min(group.ranks_per_node, group.ranks) &&
        table.gpu == cluster.gpu.name && table.network == network) {
      return &table;
    }
  }
  return nullptr;
}

double interpolated_seconds(const CollectiveTable& table, double bytes) {
  const auto& points = table.points;
  TRIREME_CHECK(!points.empty());
  const auto above = std::ranges::lower_bound(points, bytes, {}, &CollectiveTable::Point::bytes);
  if (above == points.end()) {
    return points.back().seconds;
  }
  if (above == points.begin() || above->bytes == bytes) {
    return above->seconds;
  }
  const auto below = above - 1;
  const double share = std::log(bytes / below->bytes) / std::log(above->bytes / below->bytes);
  return below->seconds * std::pow(above->seconds / below->seconds, share);
}

double regime_seconds(const CollectiveTable& table, double bytes) {
  TRIREME_CHECK(!table.regimes.empty());
  const auto found = std::ranges::find_if(
      table.regimes, [bytes](const CollectiveTable::Regime& r) { return bytes <= r.up_to_bytes; });
  const CollectiveTable::Regime& regime =
      found == table.regimes.end() ? table.regimes.back() : *found;
  return regime.latency.value + (regime.rate.value > 0 ? bytes / regime.rate.value : 0);
}

}  // namespace trireme::topologies
