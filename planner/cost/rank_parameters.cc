#include "planner/cost/rank_parameters.h"

#include <algorithm>

namespace trireme::planner {

namespace {

using models::Transformer;

// Adds one linear layer of rows x columns on this rank, with its bias elements.
void add_linear(LayerParameters& layer, double weight, double bias) {
  layer.dense += weight + bias;
  layer.linear_weights += weight;
  layer.largest_weight = std::max(layer.largest_weight, weight);
}

void add_attention(const Transformer& model, double tensor, LayerParameters& layer) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto heads = static_cast<double>(model.heads);
  if (model.latent) {
    const models::LatentAttention& latent = *model.latent;
    const auto query_rank = static_cast<double>(latent.q_lora);
    const auto kv_rank = static_cast<double>(latent.kv_lora);
    const auto qk = static_cast<double>(latent.qk_nope + latent.qk_rope);
    // Down projections are whole on every tensor-parallel rank.
    if (query_rank > 0) {
      add_linear(layer, hidden * query_rank, query_rank);  // the "bias" is the latent's norm
      add_linear(layer, query_rank * heads * qk / tensor, 0);
    } else {
      add_linear(layer, hidden * heads * qk / tensor, 0);
    }
    add_linear(layer, hidden * (kv_rank + static_cast<double>(latent.qk_rope)), kv_rank);
    add_linear(layer,
               kv_rank * heads * static_cast<double>(latent.qk_nope + latent.v_head) / tensor, 0);
    add_linear(layer, heads * static_cast<double>(latent.v_head) * hidden / tensor, 0);
    return;
  }
  const auto head_dim = static_cast<double>(model.head_dim);
  const double qkv = (heads + 2 * static_cast<double>(model.kv_heads)) * head_dim / tensor;
  add_linear(layer, hidden * qkv, model.qkv_bias ? qkv : 0);
  add_linear(layer, heads * head_dim / tensor * hidden, model.attention_output_bias ? hidden : 0);
  layer.dense += model.qk_norm ? 2 * head_dim : 0;
  layer.dense += model.attention_sinks ? heads / tensor : 0;
}

void add_mlp(const Transformer& model, double inner, LayerParameters& layer) {
  const auto hidden = static_cast<double>(model.hidden);
  const double up = model.gated_mlp ? 2 * inner : inner;
  add_linear(layer, hidden * up, model.mlp_bias ? up : 0);
  add_linear(layer, inner * hidden, model.mlp_bias ? hidden : 0);
}

void add_experts(const Transformer& model, const ParameterSplit& split, LayerParameters& layer) {
  const models::MixtureOfExperts& moe = *model.moe;
  const auto hidden = static_cast<double>(model.hidden);
  const auto experts = static_cast<double>(moe.experts);
  const auto inner = static_cast<double>(moe.expert_ffn);
  layer.dense += hidden * experts + (moe.router_bias ? experts : 0);
  double one =
      (model.gated_mlp ? 3 : 2) * hidden * inner / static_cast<double>(split.expert_tensor);
  layer.expert_weight = one;
  one +=
      moe.expert_bias
          ? ((model.gated_mlp ? 2 : 1) * inner) / static_cast<double>(split.expert_tensor) + hidden
          : 0;
  layer.expert = experts / static_cast<double>(split.expert) * one;
  if (moe.shared_ffn > 0) {
    add_mlp(model, static_cast<double>(moe.shared_ffn) / static_cast<double>(split.tensor), layer);
    layer.dense += moe.shared_gate ? hidden : 0;
  }
}

double norm_elements(const Transformer& model) {
  return static_cast<double>(model.hidden) * (model.norm == models::Norm::kLayerNorm ? 2 : 1);
}

}  // namespace

RankParameters rank_parameters(const Job& job, const ParameterSplit& split) {
  const Transformer& model = job.model;
  const auto tensor = static_cast<double>(split.tensor);
  const auto hidden = static_cast<double>(model.hidden);
  RankParameters rank;
  add_attention(model, tensor, rank.dense_layer);
  rank.dense_layer.dense += static_cast<double>(model.norms_per_layer) * norm_elements(model);
  rank.dense_layer.attention_weights = rank.dense_layer.linear_weights;
  rank.sparse_layer = rank.dense_layer;
  add_mlp(model, static_cast<double>(model.ffn) / tensor, rank.dense_layer);
  if (model.moe) {
    add_experts(model, split, rank.sparse_layer);
  }
  // Megatron pads the vocabulary to a multiple of 128 tp (--make-vocab-size-divisible-by).
  std::int64_t rows = model.vocab;
  const std::int64_t multiple = job.framework.pad_vocabulary ? 128 * split.tensor : split.tensor;
  rows = (rows + multiple - 1) / multiple * multiple;
  rank.vocabulary = static_cast<double>(rows) / tensor;
  const double width = model.embedding_dim > 0 ? static_cast<double>(model.embedding_dim) : hidden;
  rank.embedding = rank.vocabulary * width;
  if (model.position == models::Position::kLearned) {
    rank.embedding +=
        static_cast<double>(std::max(model.position_rows, model.max_sequence)) * hidden;
  }
  rank.embedding += model.embedding_norm ? norm_elements(model) : 0;
  rank.embedding += width != hidden ? width * hidden : 0;
  rank.head_matrix = rank.vocabulary * width;
  rank.head = rank.head_matrix + (model.final_norm ? norm_elements(model) : 0) +
              (width != hidden ? width * hidden : 0);
  rank.prediction = 2 * hidden * hidden / tensor + 3 * norm_elements(model);
  return rank;
}

}  // namespace trireme::planner
