#include "planner/cost/unit_link.h"

#include <algorithm>

#include "planner/plan/shape.h"

namespace trireme::planner {

bool takes_turns(const Job& job, const Plan& plan, const topologies::GroupShape& shard) {
  return job.framework.implementation != models::Implementation::kTrireme && plan.pipeline == 1 &&
         run_sharding(job, plan).sharding == Sharding::kFull && shard.ranks_per_node < shard.ranks;
}

}  // namespace trireme::planner
