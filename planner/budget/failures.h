// How often a run stops: published rates by fleet, and what they mean for a cluster.
#pragma once

#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::planner {

struct FailureRate {
  std::string name;
  double per_1000_node_days = 0;  // a node is 8 GPUs: rates go by GPUs
  std::string source;
};
const std::vector<FailureRate>& failure_rates();
// A preset's name, or a number of failures per 1000 node-days. Throws Error, listing the presets.
FailureRate find_failure_rate(const std::string& name_or_number);

// Seconds between failures of a job on the cluster's GPUs; 0 = never. `losses_per_node_hour`: nodes
// taken away from outside (spot).
double mean_seconds_between_failures(const topologies::Cluster& cluster, const FailureRate& rate,
                                     double losses_per_node_hour = 0);

}  // namespace trireme::planner
