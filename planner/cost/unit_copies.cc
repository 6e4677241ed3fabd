#include "planner/cost/unit_copies.h"

namespace trireme::planner {

UnitCopies unit_copies(const Job& job, const RunSharding& run, std::int64_t shards) {
  const Framework& framework = job.framework;
  UnitCopies copies;
  if (run.sharding == Sharding::kNone) {
    return copies;
  }
  const auto ranks = static_cast<double>(shards);
  if (framework.implementation == models::Implementation::kTrireme) {
    // Masters to compute precision; three fp32 tensors through memory.
    copies.gather = (framework.parameter_bytes + 4) / ranks;
    copies.sum = 3 * framework.reduce_bytes / ranks;
    return copies;
  }
  if (shards == 1 || (run.sharding != Sharding::kFull && !framework.fp32_shard_is_parameter)) {
    return copies;  // the optimizer's step writes what is gathered, gradients are reduced in place
  }
  // FSDP1 and Megatron-FSDP compute with views of what was gathered.
  const bool views =
      framework.sharder == Sharder::kFsdp1 || framework.sharder == Sharder::kMegatronFsdp;
  copies.gather = views ? 0 : 2 * framework.parameter_bytes;
  copies.gather += framework.fp32_shard_is_parameter && !job.training.has_adapters()
                       ? (4 + framework.parameter_bytes) / ranks
                       : 0;
  copies.reduce = framework.parameter_bytes + framework.reduce_bytes;
  copies.keep = framework.parameter_bytes + 2 * framework.reduce_bytes;
  return copies;
}

}  // namespace trireme::planner
