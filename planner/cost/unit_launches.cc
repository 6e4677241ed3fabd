#include "planner/cost/unit_launches.h"

namespace trireme::planner {

namespace {

// Parameter tensors of a dense layer.
double layer_tensors(const models::Transformer& model) {
  const int matrices = 4 + (model.gated_mlp ? 3 : 2);
  const int biases =
      (model.qkv_bias ? 3 : 0) + (model.attention_output_bias ? 1 : 0) + (model.mlp_bias ? 2 : 0);
  const double norms =
      static_cast<double>(model.norms_per_layer) * (model.norm == models::Norm::kLayerNorm ? 2 : 1);
  return matrices + biases + norms + (model.qk_norm ? 2 : 0);
}

}  // namespace

UnitLaunches unit_launches(const Job& job, bool tensor_parallel, double units, double layers) {
  const Framework& framework = job.framework;
  if (framework.traced_graph) {
    return {};  // collectives are nodes of the graph
  }
  const double tensors =
      tensor_parallel ? framework.sharded_tensor_launches * layers * layer_tensors(job.model) : 0;
  return {.gather = units * framework.unit_gather_launches + tensors,
          .reduce = units * framework.unit_reduce_launches + tensors,
          .hooks = units * framework.unit_hook_launches};
}

}  // namespace trireme::planner
