#include "planner/cost/device_memory.h"

namespace trireme::planner {

namespace {

constexpr double kPairGib = 544.0e6 / (1024.0 * 1024.0 * 1024.0);
constexpr double kGroupGib = 688.0e6 / (1024.0 * 1024.0 * 1024.0);

// A communicator of `ranks` members; buffers are allocated at its first collective.
double group_gib(std::int64_t ranks) {
  if (ranks < 2) {
    return 0;
  }
  return ranks == 2 ? kPairGib : kGroupGib;
}

}  // namespace

double communicator_gib(const Job& job, const Plan& plan) {
  double total = group_gib(plan.tensor) + group_gib(plan.context) + group_gib(plan.expert);
  const std::int64_t sharded = plan.sharded * (job.framework.shard_over_context ? plan.context : 1);
  total += group_gib(sharded);
  total += group_gib(plan.replicas);
  // Send and receive connect to the two neighbours only.
  total += group_gib(plan.pipeline > 1 ? 2 : 1);
  // Gradient norm and loss go over the model-parallel ranks.
  total += plan.tensor > 1 && plan.pipeline > 1 ? group_gib(plan.tensor * plan.pipeline) : 0;
  // A communicator of all ranks, for barriers and what is said to everybody.
  total += job.framework.world_group ? group_gib(plan.gpus()) : 0;
  return total;
}

}  // namespace trireme::planner
