#include "planner/plan/shape.h"

#include <utility>

namespace trireme::planner {
namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Shape shape_of(const Job& job, const Plan& plan) {
  const models::Transformer& model = job.model;
  Shape shape;
  shape.batch = plan.micro_batch;
  shape.sequence = job.sequence;
  shape.tokens = plan.micro_batch * job.sequence / plan.context;
  shape.tensor = plan.tensor;
  shape.sequence_parallel = plan.sequence_parallel && plan.tensor > 1;
  shape.local_tokens = shape.sequence_parallel ? shape.tokens / plan.tensor : shape.tokens;
  shape.hidden = model.hidden;
  shape.heads = model.heads / plan.tensor;
  shape.kv_heads = ceil_divide(model.kv_heads, plan.tensor);
  shape.head_dim = model.head_dim;
  shape.attention = shape.heads * shape.head_dim;
  shape.qkv = shape.attention + 2 * shape.kv_heads * shape.head_dim;
  shape.ffn = model.ffn / plan.tensor;
  shape.up = (model.gated_mlp ? 2 : 1) * shape.ffn;
  shape.vocabulary = model.vocab;
  // Megatron pads the vocabulary to a multiple of 128 * tp.
  const std::int64_t rows = ceil_divide(model.vocab, plan.tensor);
  shape.vocabulary_rows = job.framework.pad_vocabulary ? ceil_divide(rows, 128) * 128 : rows;
  return shape;
}

std::int64_t window_of(const models::Transformer& model, std::int64_t layer) {
  const auto l = static_cast<std::size_t>(layer);
  const bool slides = model.sliding_layers.empty() || model.sliding_layers[l];
  return slides ? model.sliding_window : 0;
}

std::string_view modelled_part(const Job& job, const Plan& plan, std::int64_t layer) {
  const models::Transformer& model = job.model;
  const std::pair<bool, std::string_view> parts[] = {
      {models::is_moe_layer(model, layer), "experts"},
      {model.latent.has_value(), "latent attention"},
      {model.parallel_block, "attention and MLP side by side (a parallel block)"},
      {model.norms_per_layer != 2, "another number of norms than two"},
      {model.position == models::Position::kAlibi, "ALiBi"},
      {model.attention_sinks, "attention sinks"},
      {plan.context > 1, "context parallelism"},
      {job.attention == models::AttentionKernel::kUnfused, "unfused attention"}};
  for (const auto& [is_there, part] : parts) {
    if (is_there) {
      return part;
    }
  }
  return {};
}

}  // namespace trireme::planner
