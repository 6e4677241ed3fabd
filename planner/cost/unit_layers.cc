#include "planner/cost/unit_layers.h"

#include <algorithm>
#include <cmath>

namespace trireme::planner {

std::int64_t layers_of_unit(const Job& job, const Plan& plan, const RunSharding& run,
                            double parameters) {
  // PyTorch's units stay what they are in a pipeline, which gathers and reduces them once a step.
  const bool once = job.framework.sharder == Sharder::kFsdp2 && plan.pipeline > 1 &&
                    run.sharding == Sharding::kOptimizer;
  if (run.sharding == Sharding::kFull || once) {
    return plan.fsdp_unit;
  }
  // Gradients that are sharded go as soon as a layer's are whole.
  if (job.framework.implementation == models::Implementation::kTrireme ||
      run.sharding == Sharding::kGradients) {
    return 1;
  }
  // Megatron's own rule: max(40e6, 1e6 D) parameters; DeepSpeed 5e8 elements.
  const double bucket = job.framework.bucket_elements > 0
                            ? static_cast<double>(job.framework.bucket_elements)
                            : std::max(40e6, 1e6 * static_cast<double>(plan.data_parallel()));
  const double layer = parameters / static_cast<double>(plan.tensor);
  const double layers = std::ceil(bucket / std::max(layer, 1.0));
  return static_cast<std::int64_t>(
      std::clamp(layers, 1.0, static_cast<double>(std::max<std::int64_t>(1, job.model.layers))));
}

std::int64_t layers_of_unit(const Job& job, const Plan& plan, std::int64_t rank_layers,
                            double parameters) {
  const std::int64_t chunk =
      std::max<std::int64_t>(1, rank_layers / std::max<std::int64_t>(1, plan.virtual_pipeline));
  const std::int64_t unit = layers_of_unit(job, plan, run_sharding(job, plan), parameters);
  return unit > 0 ? std::min(unit, chunk) : chunk;
}

}  // namespace trireme::planner
