// What looks wrong in a machine: narrow links, far adapters, unlike hosts, and collectives below
// what the machine should reach, with what would explain them.
#pragma once

#include <string>
#include <vector>

#include "topologies/cluster.h"
#include "topologies/collective_cost.h"

namespace trireme::topologies {

struct Finding {
  enum class Severity { kError, kWarning, kInfo } severity = Severity::kWarning;
  std::string where;   // "GPU3", "NIC1", "host2.txt", "log.txt:12"
  std::string detail;  // what is, and what should be
  std::string fix;
};
std::string severity_name(Finding::Severity severity);

// Of one node, and of the fabric in the few things that a node's description shows.
std::vector<Finding> lint_node(const Cluster& cluster);

// Hosts that should be alike and are not. `names` are of the files, in the same order.
std::vector<Finding> lint_hosts(const std::vector<Cluster>& hosts,
                                const std::vector<std::string>& names);

// One run of nccl-tests beside the expectation.
struct MeasuredCollective {
  Cluster cluster;
  GroupShape group;
  Collective collective = Collective::kAllReduce;
  std::string where;
  double bytes = 0, seconds = 0;  // the largest size
};
std::vector<Finding> lint_measured(const MeasuredCollective& measured, const Profile& profile);

}  // namespace trireme::topologies
