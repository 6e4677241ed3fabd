#include "planner/cost/collectives.h"

#include <algorithm>

#include "planner/cost/group_shape.h"

namespace trireme::planner {

using topologies::Collective;
using topologies::GroupShape;

double Collectives::known_time(Collective collective, const GroupShape& group, double bytes) {
  const auto whole = static_cast<std::int64_t>(bytes);
  const Asked key{.bytes = whole,
                  .stride = group.stride,
                  .ranks = static_cast<std::int32_t>(group.ranks),
                  .ranks_per_node = static_cast<std::int32_t>(group.ranks_per_node),
                  .concurrent_per_node = static_cast<std::int32_t>(group.concurrent_per_node),
                  .collective = static_cast<std::int32_t>(collective)};
  if (const double* found = known_.find(key)) {
    return *found;
  }
  const double seconds =
      topologies::collective_time(cluster_, profile_, collective, group, Bytes(whole),
                                  topologies::CostFamily::kNccl, false)
          .time.value;
  return known_.insert(key, seconds);
}

GroupShape Collectives::first_alike(const GroupShape& shape) {
  const topologies::NcclGraph graph = topologies::nccl_graph(cluster_, shape);
  const auto measured_alike = [&](const GroupShape& other) {
    return profile_.collectives.empty() || ((other.stride == 1) == (shape.stride == 1) &&
                                            other.concurrent_per_node == shape.concurrent_per_node);
  };
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return kind.graph == graph && measured_alike(kind.shape);
  });
  if (found == kinds_.end()) {
    kinds_.push_back({shape, graph});
    return shape;
  }
  return found->shape;
}

GroupShape Collectives::shape(std::int64_t degree, std::int64_t stride) {
  if (degree <= 1) {
    return {};
  }
  const Axes key{degree, stride};
  if (const GroupShape* found = shapes_.find(key)) {
    return *found;
  }
  return shapes_.insert(key, first_alike(topologies::group_shape(cluster_, degree, stride)));
}

GroupShape Collectives::group(const Plan& plan, Axis axis) {
  return shape(degree_of(plan, axis), stride_of(plan, axis));
}

GroupShape Collectives::joined_group(const Plan& plan, Axis first, Axis second) {
  const std::int64_t a = degree_of(plan, first);
  const std::int64_t b = degree_of(plan, second);
  if (a == 1) {
    return group(plan, second);
  }
  if (b == 1) {
    return group(plan, first);
  }
  const Joined key{{a, stride_of(plan, first)}, {b, stride_of(plan, second)}};
  if (const GroupShape* found = joined_.find(key)) {
    return *found;
  }
  const auto axis = [](const Axes& of) {
    return GroupAxis{of.degree, of.stride, of.degree * of.stride};
  };
  const Group both{"", {axis(key.first), axis(key.second)}};
  return joined_.insert(key, first_alike(shape_of_group(cluster_, both)));
}

GroupShape Collectives::pair(const Plan& plan, Axis axis) {
  const Axes key{degree_of(plan, axis), stride_of(plan, axis)};
  if (key.degree <= 1) {
    return {};
  }
  if (const GroupShape* found = pairs_.find(key)) {
    return *found;
  }
  const GroupShape group = topologies::group_shape(cluster_, key.degree, key.stride);
  return pairs_.insert(key, first_alike(neighbours(group)));
}

GroupShape Collectives::pipeline_ends(const Plan& plan) {
  const std::int64_t stride = stride_of(plan, Axis::kPipeline);
  const std::int64_t apart = (plan.pipeline - 1) * stride;
  const Ends key{apart, plan.pipeline * stride};
  if (const GroupShape* found = ends_.find(key)) {
    return *found;
  }
  return ends_.insert(
      key, first_alike(topologies::group_shape(cluster_, 2, apart, plan.pipeline * stride)));
}

}  // namespace trireme::planner
