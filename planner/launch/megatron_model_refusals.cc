// Source: Megatron-LM d98e8a64, core/transformer/transformer_config.py and
// core/models/gpt/gpt_layer_specs.py.
#include "planner/launch/megatron_model_refusals.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::planner {
namespace {

using models::Transformer;

// A field that Megatron's layer has no place for, under the name that the model file has for it.
struct Foreign {
  bool present;
  const char* key;
  const char* why;
};

void refuse_foreign_parts(const Transformer& model) {
  const bool layer_norm = model.norm == models::Norm::kLayerNorm;
  const Foreign parts[] = {
      {model.position == models::Position::kAlibi, "position",
       "alibi; Megatron-Core has learned, rotary or no positions"},
      {model.parallel_block, "parallel_block",
       "attention and MLP beside each other; Megatron-Core's layer runs one after the other"},
      {model.norms_per_layer != 2, "norms_per_layer", "not 2, which Megatron-Core's layer has"},
      {model.qk_norm && model.qk_norm_all_heads, "qk_norm_all_heads",
       "a norm over all heads; Megatron-Core normalises each head"},
      {model.embedding_dim > 0, "embedding_dim",
       "narrower than hidden; Megatron-Core's embedding is as wide as its layers"},
      {model.embedding_norm, "embedding_norm", "a norm that Megatron-Core's embedding lacks"},
      {!model.final_norm, "final_norm", "missing; Megatron-Core always ends with one"},
      {layer_norm && !model.norm_bias, "norm_bias", "missing; Megatron-Core's LayerNorm has one"},
      {model.head_bias, "head_bias", "a bias that Megatron-Core's output layer lacks"},
  };
  for (const Foreign& part : parts) {
    if (part.present) {
      refuse(fmt::format("{} of {}", part.key, model.name),
             fmt::format("is {}; a model without it would be right", part.why));
    }
  }
}

// --disable-bias-linear is one switch for attention's output, the MLP and the experts;
// --add-qkv-bias adds back that of q, k and v.
void refuse_mixed_biases(const Transformer& model) {
  const bool biases = has_linear_biases(model);
  const bool dense = models::moe_layer_count(model) < model.layers;
  const bool experts = models::moe_layer_count(model) > 0;
  if ((dense && model.mlp_bias != biases) || (experts && model.moe->expert_bias != biases) ||
      (biases && !model.qkv_bias)) {
    refuse(fmt::format("attention_output_bias and mlp_bias of {}", model.name),
           "differ; Megatron-Core has one switch for the biases of all matrices, and one more for "
           "those of q, k and v");
  }
}

}  // namespace

bool has_linear_biases(const Transformer& model) {
  return model.attention_output_bias;
}

void refuse_models_unknown_to_megatron(const Transformer& model) {
  refuse_foreign_parts(model);
  refuse_mixed_biases(model);
}

std::string layer_pattern(const std::vector<bool>& flags) {
  std::string text;
  for (std::size_t first = 0; first < flags.size();) {
    std::size_t last = first;
    while (last < flags.size() && flags[last] == flags[first]) {
      ++last;
    }
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", flags[first] ? 1 : 0, last - first);
    first = last;
  }
  return "(" + text + ")";
}

std::int64_t megatron_positions(const Job& job) {
  if (job.model.position == models::Position::kLearned) {
    return job.model.position_rows > 0 ? job.model.position_rows : job.model.max_sequence;
  }
  return std::max(job.model.max_sequence, job.sequence);
}

}  // namespace trireme::planner
