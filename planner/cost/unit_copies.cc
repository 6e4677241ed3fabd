#include "planner/cost/unit_copies.h"

namespace trireme::planner {

UnitCopies unit_copies(const Job& job, const Plan& plan, const RunSharding& run) {
  const Framework& framework = job.framework;
  UnitCopies copies;
  if (run.sharding == Sharding::kNone) {
    return copies;
  }
  const auto shards =
      static_cast<double>(plan.sharded * (framework.shard_over_context ? plan.context : 1));
  if (framework.implementation == models::Implementation::kTrireme) {
    // Masters to compute precision; three fp32 tensors through memory.
    copies.gather = (framework.parameter_bytes + 4) / shards;
    copies.sum = 3 * framework.reduce_bytes / shards;
    return copies;
  }
  if (run.sharding != Sharding::kFull && !framework.fp32_shard_is_parameter) {
    return copies;  // the optimizer's step writes what is gathered, gradients are reduced in place
  }
  // FSDP1 and Megatron-FSDP compute with views of what was gathered.
  const bool views =
      framework.sharder == Sharder::kFsdp1 || framework.sharder == Sharder::kMegatronFsdp;
  copies.gather = views ? 0 : 2 * framework.parameter_bytes;
  copies.gather += framework.fp32_shard_is_parameter && !job.training.has_adapters()
                       ? (4 + framework.parameter_bytes) / shards
                       : 0;
  copies.reduce = framework.parameter_bytes + framework.reduce_bytes;
  copies.keep = framework.parameter_bytes + 2 * framework.reduce_bytes;
  return copies;
}

}  // namespace trireme::planner
