#include "planner/cost/group_shape.h"

#include <algorithm>
#include <vector>

namespace trireme::planner {

using topologies::GroupShape;

GroupShape shape_of_group(const topologies::Cluster& cluster, const Group& group) {
  std::vector<GroupAxis> axes = group.axes;
  std::sort(axes.begin(), axes.end(),
            [](const GroupAxis& a, const GroupAxis& b) { return a.stride < b.stride; });
  // Axes that continue each other are one.
  std::vector<GroupAxis> merged;
  for (const GroupAxis& axis : axes) {
    if (!merged.empty() && merged.back().stride * merged.back().degree == axis.stride) {
      merged.back().degree *= axis.degree;
    } else {
      merged.push_back(axis);
    }
  }
  if (merged.empty()) {
    return topologies::group_shape(cluster, 1, 1);
  }
  const std::int64_t period =
      merged.size() == 1 && axes.size() == 1 ? axes[0].period : merged[0].degree * merged[0].stride;
  GroupShape shape = topologies::group_shape(cluster, merged[0].degree, merged[0].stride, period);
  for (std::size_t i = 1; i < merged.size(); ++i) {
    const GroupShape other = topologies::group_shape(cluster, merged[i].degree, merged[i].stride);
    const auto fewest = [](const GroupShape& axis) {
      return axis.fewest_per_node > 0 ? axis.fewest_per_node : axis.ranks_per_node;
    };
    const std::int64_t fewest_of_both = fewest(shape) * fewest(other);
    shape.ranks *= other.ranks;
    shape.ranks_per_node *= other.ranks_per_node;
    shape.fewest_per_node = fewest_of_both < shape.ranks_per_node ? fewest_of_both : 0;
  }
  const std::int64_t in_use =
      std::min<std::int64_t>(cluster.node.gpus, std::max<std::int64_t>(1, cluster.gpus));
  shape.concurrent_per_node = std::max<std::int64_t>(1, in_use / shape.ranks_per_node);
  return shape;
}

GroupShape neighbours(GroupShape group) {
  group.ranks_per_node = group.ranks_per_node >= group.ranks ? 2 : 1;
  group.fewest_per_node = 0;
  group.ranks = 2;
  return group;
}

}  // namespace trireme::planner
