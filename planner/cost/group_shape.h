// How a group of ranks lies on the cluster.
#pragma once

#include "core/program.h"
#include "topologies/collective_cost.h"

namespace trireme::planner {

topologies::GroupShape shape_of_group(const topologies::Cluster& cluster, const Group& group);
// Two that follow each other in the group, the slowest such pair: across nodes when any hop leaves
// the node.
topologies::GroupShape neighbours(topologies::GroupShape group);

}  // namespace trireme::planner
