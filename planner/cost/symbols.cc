#include "planner/cost/symbols.h"

#include <algorithm>

#include "models/transformer.h"
#include "models/work.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

constexpr double kHalfBytes = 2;  // bf16 and fp16

double kept_elements(const Job& job, const Plan& plan) {
  const models::Transformer& model = job.model;
  const double tokens = static_cast<double>(plan.micro_batch * job.sequence);
  if (plan.recompute == Recompute::kFull && plan.recompute_layers < 0) {
    return tokens * static_cast<double>(model.hidden * model.layers);  // the layers' inputs
  }
  models::Shard shard;
  shard.micro_batch = plan.micro_batch;
  shard.sequence = job.sequence;
  shard.attention = attention_kernel(job);
  double bytes = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    for (const models::KeptItem& item : models::kept_activations(
             model, layer, shard, job.framework.implementation, job.framework.dropout)) {
      bytes += static_cast<double>(item.bytes.value);
    }
  }
  return bytes / kHalfBytes;
}

}  // namespace

Symbols symbols_of(const Job& job, const Plan& plan) {
  const models::Transformer& model = job.model;
  Symbols s;
  s.parameters = static_cast<double>(models::parameter_count(model));
  s.element_bytes = job.framework.parameter_bytes;
  s.devices = static_cast<double>(job.cluster.gpus);
  s.tensor = static_cast<double>(plan.tensor);
  s.pipeline = static_cast<double>(plan.pipeline);
  s.layers = static_cast<double>(model.layers);
  s.hidden = static_cast<double>(model.hidden);
  s.micro_batches = static_cast<double>(plan.micro_batches);
  s.micro_batch_tokens = static_cast<double>(plan.micro_batch * job.sequence);
  s.activations = kept_elements(job, plan);
  const double layer = static_cast<double>(models::layer_parameter_count(model, model.layers - 1));
  const double units = 1 + job.framework.prefetch_units;
  const double unit =
      plan.fsdp_unit == 0 ? s.parameters : layer * static_cast<double>(plan.fsdp_unit);
  const double root = static_cast<double>(models::embedding_parameter_count(model));
  s.gathered_share = std::min(1.0, std::max(units * unit, root) / s.parameters);
  s.activation_ratio = s.activations / (4 * s.parameters);
  return s;
}

}  // namespace trireme::planner
