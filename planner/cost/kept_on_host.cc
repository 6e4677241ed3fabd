#include "planner/cost/kept_on_host.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/layer_memory.h"
#include "planner/cost/rank_parameters.h"
#include "planner/plan/kept_on_host.h"

namespace trireme::planner {
namespace {

// Bytes that one micro-batch's layers on a rank send down.
double moved_bytes(const Job& job, const Plan& plan) {
  const std::int64_t inner = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  const RankParameters parameters = rank_parameters(job, {plan.tensor, plan.expert, inner});
  const LayerMemory layer =
      layer_memory(job, plan, job.model.layers - 1,
                   job.model.moe ? parameters.sparse_layer : parameters.dense_layer);
  const auto chunks = static_cast<double>(plan.pipeline * plan.virtual_pipeline);
  const std::int64_t layers = std::lround(static_cast<double>(job.model.layers) / chunks);
  return static_cast<double>(plan.virtual_pipeline * layers_on_host(job.offload, layers)) *
         (plan.recompute == Recompute::kFull ? layer.checkpoint : layer.kept);
}

}  // namespace

bool keeps_on_host(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.offload.activations == OffloadTo::kHost;
}

double kept_on_host_seconds(const Job& job, const Plan& plan, const HostMachine& host,
                            double forward, double backward) {
  const double way = moved_bytes(job, plan) / host.both_rate;  // one micro-batch's up beside
  const double each = std::max(0.0, way - forward) + std::max(0.0, way - backward);
  // What makes every pass longer makes the pipeline's bubble longer too.
  const double bubble =
      static_cast<double>(plan.pipeline - 1) / static_cast<double>(plan.virtual_pipeline);
  return (static_cast<double>(plan.micro_batches) + bubble) * each;
}

}  // namespace trireme::planner
