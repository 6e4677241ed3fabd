// Collective times by their arguments, remembered: search asks for the same few again and again.
#pragma once

#include <vector>

#include "planner/cost/flat_map.h"
#include "planner/plan/plan.h"
#include "topologies/collective_cost.h"
#include "topologies/nccl_graph.h"

namespace trireme::planner {

class Collectives {
 public:
  Collectives(const topologies::Cluster& cluster, const topologies::Profile& profile)
      : cluster_(cluster), profile_(profile) {}

  // Seconds of one collective of `bytes` (nccl-tests' size) on the group; 0 for a group of one.
  double time(topologies::Collective collective, const topologies::GroupShape& group,
              double bytes) {
    return group.ranks <= 1 || bytes <= 0 ? 0 : known_time(collective, group, bytes);
  }
  // Groups that NCCL sees alike are one: their ranks' strides are those of the first that was asked
  // for.
  // The group of one axis of a plan, and of two axes taken together (shards over data and context),
  // between which other axes may lie.
  topologies::GroupShape group(const Plan& plan, Axis axis);
  // `degree` ranks, `stride` apart.
  topologies::GroupShape shape(std::int64_t degree, std::int64_t stride);
  topologies::GroupShape joined_group(const Plan& plan, Axis first, Axis second);
  // Two neighbours on the axis, the slowest such pair: across nodes when any hop leaves the node.
  topologies::GroupShape pair(const Plan& plan, Axis axis);
  // The first and the last stage.
  topologies::GroupShape pipeline_ends(const Plan& plan);

 private:
  double known_time(topologies::Collective collective, const topologies::GroupShape& group,
                    double bytes);

  const topologies::Cluster& cluster_;
  const topologies::Profile& profile_;
  struct Asked {  // at most 2^30 ranks
    std::int64_t bytes = 0, stride = 1;
    std::int32_t ranks = 1, ranks_per_node = 1, concurrent_per_node = 1, collective = 0;
    friend bool operator==(const Asked&, const Asked&) = default;
  };
  struct Axes {
    std::int64_t degree = 1, stride = 1;
    friend bool operator==(const Axes&, const Axes&) = default;
  };
  struct Joined {
    Axes first, second;
    friend bool operator==(const Joined&, const Joined&) = default;
  };
  struct Ends {  // two members so many ranks apart, the next two `period` ranks on
    std::int64_t apart = 1, period = 1;
    friend bool operator==(const Ends&, const Ends&) = default;
  };
  struct Kind {
    topologies::GroupShape shape;
    topologies::NcclGraph graph;
  };
  // The first asked for of those that take the same time, whatever the collective and its size.
  topologies::GroupShape first_alike(const topologies::GroupShape& shape);
  std::vector<Kind> kinds_;
  FlatMap<Asked, double> known_;
  FlatMap<Axes, topologies::GroupShape> shapes_, pairs_;
  FlatMap<Joined, topologies::GroupShape> joined_;
  FlatMap<Ends, topologies::GroupShape> ends_;
};

}  // namespace trireme::planner
