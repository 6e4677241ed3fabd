// The work of a layer: which products, attention and memory-bound passes one rank does for it.
#include "models/work.h"

#include <cmath>
#include <utility>

#include "models/work_list.h"

namespace trireme::models {

void WorkList::linear(Part part, std::int64_t m, std::int64_t n, std::int64_t k,
                      std::int64_t count) {
  work_.forward.matmuls.push_back({part, m, n, k, count});
  work_.input_gradient.matmuls.push_back({part, m, k, n, count});
  work_.weight_gradient.matmuls.push_back({part, k, n, m, count});
}

void WorkList::activation_product(Part part, std::int64_t m, std::int64_t n, std::int64_t k,
                                  std::int64_t count) {
  work_.forward.matmuls.push_back({part, m, n, k, count});
  work_.input_gradient.matmuls.push_back({part, m, k, n, count});
  work_.input_gradient.matmuls.push_back({part, k, n, m, count});
}

void WorkList::pass(Part part, std::int64_t elements, const PassCost& cost, OwnKernels own) {
  if (kernels_.implementation != Implementation::kTrireme) {
    own = {};
  }
  const auto traffic = [elements](double bytes) {
    return Bytes(static_cast<std::int64_t>(bytes * static_cast<double>(elements)));
  };
  if (cost.forward_bytes > 0.0) {
    work_.forward.memory_bound.push_back(
        {part, traffic(cost.forward_bytes), cost.forward_kernels, own.forward});
  }
  if (cost.backward_bytes > 0.0) {
    work_.input_gradient.memory_bound.push_back(
        {part, traffic(cost.backward_bytes), cost.backward_kernels, own.backward});
  }
}

OwnKernels WorkList::activation_kernels() const {
  return model_.gated_mlp ? OwnKernels{Kernel::kSwigluForward, Kernel::kSwigluBackward}
                          : OwnKernels{Kernel::kGeluForward, Kernel::kGeluBackward};
}

void WorkList::norm(Part part, std::int64_t elements) {
  const OwnKernels own = model_.norm == Norm::kLayerNorm
                             ? OwnKernels{Kernel::kLayerNormForward, Kernel::kLayerNormBackward}
                             : OwnKernels{Kernel::kRmsNormForward, Kernel::kRmsNormBackward};
  pass(part, elements, norm_cost(kernels_.implementation), own);
}

// TransformerEngine and the compiler sum bias gradients inside a neighbouring kernel.
void WorkList::bias_gradient(Part part, std::int64_t rows, std::int64_t width) {
  if (kernels_.implementation == Implementation::kEagerTorch ||
      kernels_.implementation == Implementation::kClassicMegatron) {
    pass(part, rows * width, {0.0, 2.0, 0, 1});
  } else if (kernels_.implementation == Implementation::kTrireme) {
    pass(part, rows * width, {4.0, 2.0, 1, 1}, {Kernel::kBiasForward, Kernel::kBiasBackward});
  }
}

void WorkList::attention_projections() {
  const std::int64_t hidden = model_.hidden;
  const std::int64_t query_width = share_.heads * model_.head_dim;
  const std::int64_t kv_width = share_.kv_heads * model_.head_dim;
  if (has_fused_projections(kernels_.implementation)) {
    linear(Part::kQkv, share_.tokens, query_width + 2 * kv_width, hidden);
    // Backward concatenates the three gradients; this project's attention writes them in place.
    if (kernels_.implementation != Implementation::kTrireme) {
      pass(Part::kQkvLayout, share_.tokens * (query_width + 2 * kv_width),
           joined_gradients_cost(kernels_, query_width == kv_width));
    }
  } else {
    linear(Part::kQuery, share_.tokens, query_width, hidden);
    linear(Part::kKey, share_.tokens, kv_width, hidden);
    linear(Part::kValue, share_.tokens, kv_width, hidden);
    pass(Part::kInputGradientSum, share_.tokens * hidden, {0.0, 12.0, 0, 2});
  }
  if (model_.qkv_bias && kernels_.element_joins) {
    pass(Part::kQkvBias, share_.tokens * (query_width + 2 * kv_width), element_bias_cost());
  }
  if (model_.qkv_bias) {
    bias_gradient(Part::kQkvBias, share_.tokens, query_width + 2 * kv_width);
  }
  if (model_.qk_norm && kernels_.implementation == Implementation::kTrireme) {
    pass(Part::kHeadNorm, share_.tokens * (query_width + 2 * kv_width), {4.0, 6.0, 1, 1},
         {Kernel::kHeadNormForward, Kernel::kHeadNormBackward});
  } else if (model_.qk_norm) {
    norm(Part::kHeadNorm, share_.tokens * query_width);
    norm(Part::kHeadNorm, share_.tokens * kv_width);
  }
}

// Down-projections are whole on every tensor-parallel rank and act on its part of the stream.
void WorkList::latent_projections() {
  const LatentAttention& latent = *model_.latent;
  const std::int64_t query_width = share_.heads * share_.qk_dim;
  if (latent.q_lora > 0) {
    linear(Part::kQueryDown, share_.stream_tokens, latent.q_lora, model_.hidden);
    norm(Part::kHeadNorm, share_.stream_tokens * latent.q_lora);
    linear(Part::kQueryUp, share_.tokens, query_width, latent.q_lora);
  } else {
    linear(Part::kQuery, share_.tokens, query_width, model_.hidden);
  }
  const bool own = kernels_.implementation == Implementation::kTrireme;
  linear(Part::kKeyValueDown, share_.stream_tokens, latent.kv_lora + (own ? 0 : latent.qk_rope),
         model_.hidden);
  if (own) {
    linear(Part::kKeyValueDown, share_.stream_tokens, latent.qk_rope, model_.hidden);
  }
  norm(Part::kHeadNorm, share_.stream_tokens * latent.kv_lora);
  linear(Part::kKeyValueUp, share_.tokens, share_.heads * (latent.qk_nope + latent.v_head),
         latent.kv_lora);
  if (own) {  // one kernel turns the rotary parts and writes heads for attention
    const std::int64_t rows =
        share_.heads * (3 * share_.qk_dim + latent.qk_nope + 2 * share_.v_dim);
    pass(Part::kQkvLayout, share_.tokens * (rows + latent.qk_rope), {2.0, 2.0, 1, 1},
         {Kernel::kLatentHeadsForward, Kernel::kLatentHeadsBackward});
    return;
  }
  // Keys and queries are put together from their two parts.
  pass(Part::kQkvLayout, share_.tokens * 2 * query_width,
       latent_layout_cost(kernels_.implementation));
}

void WorkList::rotary() {
  const bool turned = model_.latent && kernels_.implementation == Implementation::kTrireme;
  if (model_.position != Position::kRotary || turned) {
    return;
  }
  const std::int64_t width = model_.latent ? (share_.heads + 1) * model_.latent->qk_rope
                                           : (share_.heads + share_.kv_heads) * model_.head_dim;
  pass(Part::kRotary, share_.tokens * width, rotary_cost(kernels_.implementation),
       {Kernel::kRotaryForward, Kernel::kRotaryBackward});
}

void WorkList::core_attention(std::int64_t layer) {
  if (shard_.attention == AttentionKernel::kUnfused) {
    unfused_attention();
    return;
  }
  const AttentionWork attention{.batch = shard_.micro_batch,
                                .heads = share_.heads,
                                .kv_heads = model_.latent ? share_.heads : share_.kv_heads,
                                .query_length = share_.query_length,
                                .key_length = shard_.sequence,
                                .qk_dim = share_.qk_dim,
                                .v_dim = share_.v_dim,
                                .causal = true,
                                .window = attention_window(model_, layer)};
  work_.forward.attention.push_back(attention);
  work_.input_gradient.attention.push_back(attention);
  if (kernels_.implementation == Implementation::kEagerTorch) {
    // The transposed output is copied before the output matrix.
    pass(Part::kAttentionLayout, share_.tokens * share_.heads * share_.v_dim, {4.0, 0.0, 1, 0});
  }
}

// All scores are computed, masked ones too.
void WorkList::unfused_attention() {
  const std::int64_t batch = shard_.micro_batch * share_.heads;
  const std::int64_t keys = shard_.sequence;
  const std::int64_t scores = batch * share_.query_length * keys;
  activation_product(Part::kScores, share_.query_length, keys, share_.qk_dim, batch);
  pass(Part::kSoftmax, scores, softmax_cost(kernels_, has_joined_softmax(kernels_, batch, keys)));
  if (kernels_.dropout > 0.0) {
    pass(Part::kScoresDropout, scores, dropout_cost());
  }
  activation_product(Part::kContext, share_.query_length, share_.v_dim, keys, batch);
  pass(Part::kAttentionLayout, share_.tokens * share_.heads * share_.v_dim, {4.0, 4.0, 1, 1});
}

// Bias of a dense MLP is the model's; `inner` is this rank's.
void WorkList::mlp(const MlpParts& parts, std::int64_t inner) {
  const std::int64_t hidden = model_.hidden;
  if (!model_.gated_mlp) {
    linear(parts.up, share_.tokens, inner, hidden);
  } else if (has_fused_projections(kernels_.implementation)) {
    linear(parts.up, share_.tokens, 2 * inner, hidden);
  } else {
    linear(parts.gate, share_.tokens, inner, hidden);
    linear(parts.up, share_.tokens, inner, hidden);
    pass(Part::kMlpInputGradientSum, share_.tokens * hidden, {0.0, 6.0, 0, 1});
  }
  pass(parts.activation, share_.tokens * inner,
       activation_cost(kernels_.implementation, model_.gated_mlp), activation_kernels());
  linear(parts.down, share_.tokens, hidden, inner);
  if (model_.mlp_bias) {
    bias_gradient(Part::kMlpBias, share_.tokens, (model_.gated_mlp ? 2 : 1) * inner);
    bias_gradient(Part::kMlpBias, share_.stream_tokens, hidden);
  }
}

void WorkList::experts() {
  const MixtureOfExperts& moe = *model_.moe;
  const ExpertShare expert = expert_share(model_, shard_, share_);
  const std::int64_t hidden = model_.hidden;
  linear(Part::kRouter, share_.stream_tokens, moe.experts, hidden);
  // Scores in fp32: softmax or sigmoid, top-k, normalisation, map, balance loss.
  pass(Part::kRouting, share_.stream_tokens * moe.experts, {24.0, 16.0, 6, 4});
  if (moe.shared_ffn > 0) {
    mlp({Part::kSharedUp, Part::kSharedGate, Part::kSharedDown, Part::kSharedActivation},
        divide_up(moe.shared_ffn, shard_.tensor_parallel));
  }
  // This project's runtime says itself what came to its ranks; those that share an expert gather
  // their tokens before each sorts them all.
  const bool own = kernels_.implementation == Implementation::kTrireme;
  const std::int64_t sent =
      expert.routed_tokens * moe.experts_per_token * (own ? shard_.expert_tensor_parallel : 1);
  const double load = own ? 1 : busiest_expert_load(model_, shard_);
  const std::int64_t rows = std::llround(load * static_cast<double>(expert.tokens_per_expert));
  const std::int64_t received = rows * expert.local_experts;
  // The function between the products passes over the room for rows, filled or not.
  const std::int64_t passed =
      own ? std::llround(shard_.expert_room * static_cast<double>(received)) : received;
  // DeepEP and HybridEP bring kernels of their own.
  const PassCost copy = expert_copy_cost(kernels_.implementation,
                                         kernels_.permuted_once || kernels_.fused_permutation);
  PassCost in = own ? own_permute_cost(moe.experts_per_token) : copy;
  // What each expert has to itself is of its products: recompute of the activation repeats none.
  const auto alone = static_cast<int>(expert.local_experts) * kernels_.expert_kernels;
  in.forward_kernels += alone;
  in.backward_kernels += 2 * alone;
  const PassCost out = own ? own_combine_cost(moe.experts_per_token) : copy;
  const bool arrives_sorted = kernels_.permuted_once && shard_.expert_parallel > 1;
  if (own) {
    pass(Part::kPermute, sent, {8.0, 0.0, 1, 0}, {Kernel::kExpertPlaces});
  }
  pass(Part::kPermute, (arrives_sorted ? received : sent) * hidden, in,
       {Kernel::kPermuteRows, Kernel::kCombineRows});
  if (shard_.expert_parallel > 1 && expert.local_experts > 1 && !arrives_sorted) {
    pass(Part::kPermute, 2 * received * hidden, {4.0, 4.0, 2, 2},  // by expert on arrival, and back
         {Kernel::kRegroupRows, Kernel::kRegroupRows});
  }
  linear(Part::kExpertsUp, rows, (model_.gated_mlp ? 2 : 1) * expert.inner, hidden,
         expert.local_experts);
  pass(Part::kExpertActivation, passed * expert.inner,
       activation_cost(kernels_.implementation, model_.gated_mlp), activation_kernels());
  linear(Part::kExpertsDown, rows, hidden, expert.inner, expert.local_experts);
  if (moe.expert_bias && kernels_.implementation == Implementation::kTransformerEngine) {
    pass(Part::kMlpBias, received * hidden, weighted_bias_cost(expert.local_experts));
  }
  pass(Part::kUnpermute, (arrives_sorted ? received : sent) * hidden, out,
       {Kernel::kCombineRows, Kernel::kCombineBackward});
}

void WorkList::residual(Part part) {
  pass(part, share_.stream_tokens * model_.hidden,
       residual_cost(kernels_.implementation, kernels_.dropout), {Kernel::kAdd, std::nullopt});
}

void WorkList::add_layer(std::int64_t layer) {
  const std::int64_t stream = share_.stream_tokens * model_.hidden;
  for (std::int64_t i = 0; i < model_.norms_per_layer; ++i) {
    norm(i % 2 == 0 ? Part::kAttentionNorm : Part::kMlpNorm, stream);
  }
  if (model_.latent) {
    latent_projections();
  } else {
    attention_projections();
  }
  rotary();
  core_attention(layer);
  linear(Part::kAttentionOutput, share_.tokens, model_.hidden, share_.heads * share_.v_dim);
  if (model_.attention_output_bias) {
    bias_gradient(Part::kAttentionOutputBias, share_.stream_tokens, model_.hidden);
  }
  residual(Part::kAttentionResidual);
  if (is_moe_layer(model_, layer)) {
    experts();
  } else {
    mlp({Part::kMlpUp, Part::kMlpGate, Part::kMlpDown, Part::kActivation},
        divide_up(model_.ffn, shard_.tensor_parallel));
  }
  residual(Part::kMlpResidual);
}

LayerWork WorkList::layer(std::int64_t layer) {
  if (layer >= model_.layers) {
    add_token_projection();
  }
  add_layer(layer);
  return std::move(work_);
}

LayerWork layer_work(const Transformer& model, std::int64_t layer, const Shard& shard,
                     const Kernels& kernels) {
  return WorkList(model, shard, kernels).layer(layer);
}

}  // namespace trireme::models
