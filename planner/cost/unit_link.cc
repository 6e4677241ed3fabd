#include "planner/cost/unit_link.h"

#include <algorithm>

#include "planner/plan/shape.h"

namespace trireme::planner {

ShardRanks shard_ranks(const Job& job, const Plan& plan) {
  const ShardRanks sharded = {plan.sharded, stride_of(plan, Axis::kSharded)};
  if (!job.framework.shard_over_context || plan.context == 1) {
    return sharded;
  }
  const std::int64_t context = stride_of(plan, Axis::kContext);
  return {plan.context * plan.sharded,
          plan.sharded > 1 ? std::min(context, sharded.stride) : context};
}

bool takes_turns(const Job& job, const Plan& plan, const topologies::GroupShape& shard) {
  return job.framework.implementation != models::Implementation::kTrireme && plan.pipeline == 1 &&
         run_sharding(job, plan).sharding == Sharding::kFull && shard.ranks_per_node < shard.ranks;
}

}  // namespace trireme::planner
