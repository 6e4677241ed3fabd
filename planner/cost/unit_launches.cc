#include "planner/cost/unit_launches.h"

#include "models/pass_cost.h"
#include "planner/cost/state_memory.h"

namespace trireme::planner {

// Parameter tensors of a dense layer.
double layer_tensors(const models::Transformer& model, models::Implementation implementation) {
  constexpr int kFusedMatrices = 4;
  const int matrices = models::has_fused_projections(implementation)
                           ? kFusedMatrices
                           : 4 + (model.gated_mlp ? 3 : 2);
  const int biases =
      (model.qkv_bias ? 3 : 0) + (model.attention_output_bias ? 1 : 0) + (model.mlp_bias ? 2 : 0);
  const double norms =
      static_cast<double>(model.norms_per_layer) * (model.norm == models::Norm::kLayerNorm ? 2 : 1);
  return matrices + biases + norms + (model.qk_norm ? 2 : 0);
}

UnitLaunches unit_launches(const Job& job, bool tensor_parallel, double units, double layers) {
  const Framework& framework = job.framework;
  if (framework.traced_graph) {
    return {};  // collectives are nodes of the graph
  }
  if (const HostCounts* counts = host_counts_of(framework)) {
    return {.gather = units * counts->unit_gather,
            .reduce = units * counts->unit_reduce,
            .hooks = units * counts->unit_hooks};
  }
  const double tensors = tensor_parallel ? framework.sharded_tensor_launches * layers *
                                               layer_tensors(job.model, framework.implementation)
                                         : 0;
  return {.gather = units * framework.unit_gather_launches + tensors,
          .reduce = units * framework.unit_reduce_launches + tensors,
          .hooks = units * framework.unit_hook_launches};
}

UnitLaunches looped_expert_launches(const Job& job) {
  // Modules of the layer that was traced: itself, attention with its four projections, the MLP with
  // three and its activation, two norms. An expert is such an MLP.
  constexpr double kLayerModules = 13;
  constexpr double kExpertModules = 5;
  const HostCounts* counts = host_counts_of(job.framework);
  if (counts == nullptr || !job.framework.experts_in_loop || !job.model.moe ||
      job.framework.sharder != Sharder::kZero) {
    return {};
  }
  const auto experts = static_cast<double>(job.model.moe->experts);
  const double weights = job.model.gated_mlp ? 3 : 2;
  const double tensors = layer_tensors(job.model, job.framework.implementation);
  return {
      .reduce = job.training.has_adapters() ? 0 : counts->unit_reduce * experts * weights / tensors,
      .hooks = counts->unit_hooks * experts * kExpertModules / kLayerModules};
}

bool has_unit_hosts(const Framework& framework, const HostCounts* counts, Sharding sharding) {
  const double launches = counts != nullptr ? counts->unit_reduce : framework.unit_gather_launches;
  // ZeRO's hooks are of its third stage.
  const Sharding least =
      framework.sharder == Sharder::kZero ? Sharding::kFull : Sharding::kGradients;
  return launches > 0 && sharding >= least;
}

bool hooks_repeat(const Framework& framework) {
  return framework.sharder == Sharder::kZero;
}

double micro_batch_host(const Job& job, const HostCounts& counts, double layers,
                        bool reduces_each) {
  const Framework& framework = job.framework;
  const bool of_autograd = framework.sharder == Sharder::kZero && !reduces_each &&
                           zero_sum_bytes(job, Sharding::kOptimizer) < 4;
  const double each = of_autograd ? 1 / kPlainLaunch : counts.micro_batch_tensor.plain;
  return each * layers * layer_tensors(job.model, framework.implementation);
}

double step_host(const Job& job, double layers, double shards) {
  const HostCounts* counts = host_counts_of(job.framework);
  if (counts == nullptr) {
    return 0;
  }
  const double tensors = layers * layer_tensors(job.model, job.framework.implementation) + 3;
  return counts->step.plain + counts->step_tensor.plain * tensors / shards;
}

double step_shards(const Framework& framework, const Plan& plan) {
  return framework.sharder == Sharder::kBuffers && plan.sharding != Sharding::kNone
             ? static_cast<double>(plan.sharded)
             : 1;
}

}  // namespace trireme::planner
