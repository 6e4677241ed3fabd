#include "planner/plan/stage_groups.h"

#include <algorithm>

#include "topologies/node_groups.h"

namespace trireme::planner {

std::uint32_t groups_of_stage(const topologies::Cluster& cluster, std::int64_t stage_stride,
                              std::int64_t stages, std::int64_t stage) {
  std::uint32_t groups = 0;
  const std::int64_t period = stage_stride * stages;
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    const topologies::RankRange ranks = topologies::ranks_of_group(cluster, g);
    // The stage's ranks repeat with the period: one round from the group's first rank is enough.
    const std::int64_t last = std::min(ranks.last, ranks.first + period);
    for (std::int64_t block = ranks.first / period * period; block < last; block += period) {
      const std::int64_t first = block + stage * stage_stride;
      if (first < last && first + stage_stride > ranks.first) {
        groups |= std::uint32_t{1} << g;
      }
    }
  }
  return groups;
}

std::uint32_t groups_of_stage(const topologies::Cluster& cluster, const Plan& plan,
                              std::int64_t stage) {
  if (cluster.groups.empty()) {
    return 0;
  }
  // Search asks for bounds of plans whose other degrees are not settled: stages that are the
  // outermost axis are equal runs of the ranks whatever those are.
  const bool outermost = plan.order.back() == Axis::kPipeline;
  const std::int64_t stride = outermost ? std::max<std::int64_t>(1, cluster.gpus / plan.pipeline)
                                        : stride_of(plan, Axis::kPipeline);
  return groups_of_stage(cluster, stride, plan.pipeline, stage);
}

}  // namespace trireme::planner
