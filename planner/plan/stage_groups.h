// Which of a cluster's unlike nodes the stages of a pipeline are on.
#pragma once

#include <cstdint>

#include "planner/plan/plan.h"
#include "topologies/cluster.h"

namespace trireme::planner {

// The cluster's groups of nodes that hold a rank of a pipeline stage, a bit each; 0 where all nodes
// are alike.
std::uint32_t groups_of_stage(const topologies::Cluster& cluster, std::int64_t stage_stride,
                              std::int64_t stages, std::int64_t stage);
std::uint32_t groups_of_stage(const topologies::Cluster& cluster, const Plan& plan,
                              std::int64_t stage);

}  // namespace trireme::planner
