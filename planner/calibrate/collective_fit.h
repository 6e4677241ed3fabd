// From measured collectives to a profile: a table with its regimes for every group that was
// measured, and corrections of NCCL's model for the groups that were not.
#pragma once

#include <string>
#include <vector>

#include "topologies/collective_cost.h"

namespace trireme::planner {

// One collective over one group of one cluster, by size.
struct CollectiveMeasurement {
  topologies::Cluster cluster;
  topologies::GroupShape group;
  topologies::Collective collective = topologies::Collective::kAllReduce;
  std::vector<topologies::CollectiveTable::Point> points;
  std::string source;
  // The host issued each one and waited for it, as PyTorch's timers do: sizes whose time hardly
  // differs from the least say how long issuing takes, not how long the links do.
  bool host_timed = false;
};

// Splits the sizes into at most four runs, each of one latency and one rate (least relative error,
// robust, neither negative). Points of equal size are merged to their median; they may come in any
// order. Requires: at least one point.
topologies::CollectiveTable fit_table(const CollectiveMeasurement& measured);

struct CollectiveFitReport {
  std::string name;  // "all_reduce over 8 in one node"
  double regimes_error = 0, model_error_before = 0, model_error_after = 0;  // median, 1 MiB and up
  int points = 0;
};

// Adds tables and the corrections of fabrics and networks (profile.networks) to `profile`.
std::vector<CollectiveFitReport> fit_collectives(const std::vector<CollectiveMeasurement>& measured,
                                                 topologies::Profile& profile);

}  // namespace trireme::planner
