// Parameter counts from the list of tensors that each layer has, and the check of dimensions.
#include "models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace trireme::models {
namespace {

ParameterTensor split(std::string name, std::int64_t rows, std::int64_t columns = 1) {
  return {.name = std::move(name), .rows = rows, .columns = columns};
}

ParameterTensor whole(std::string name, std::int64_t rows, std::int64_t columns = 1) {
  return {.name = std::move(name), .rows = rows, .columns = columns, .tensor_parallel = false};
}

std::int64_t norm_vectors(const Transformer& model) {
  return model.norm == Norm::kLayerNorm && model.norm_bias ? 2 : 1;
}

void add_norms(const Transformer& model, std::vector<ParameterTensor>& tensors) {
  for (std::int64_t i = 1; i <= model.norms_per_layer; ++i) {
    tensors.push_back(whole(fmt::format("norm{}.weight", i), model.hidden));
    if (norm_vectors(model) == 2) {
      tensors.push_back(whole(fmt::format("norm{}.bias", i), model.hidden));
    }
  }
}

void add_latent_attention(const Transformer& model, std::vector<ParameterTensor>& tensors) {
  const LatentAttention& latent = *model.latent;
  const std::int64_t query_width = model.heads * (latent.qk_nope + latent.qk_rope);
  const std::int64_t latent_width = latent.kv_lora + latent.qk_rope;
  if (latent.q_lora > 0) {
    tensors.push_back(whole("attention.q_down", latent.q_lora, model.hidden));
    tensors.push_back(whole("attention.q_norm", latent.q_lora));
    tensors.push_back(split("attention.q_up", query_width, latent.q_lora));
  } else {
    tensors.push_back(split("attention.q", query_width, model.hidden));
  }
  tensors.push_back(whole("attention.kv_down", latent_width, model.hidden));
  tensors.push_back(whole("attention.kv_norm", latent.kv_lora));
  tensors.push_back(
      split("attention.kv_up", model.heads * (latent.qk_nope + latent.v_head), latent.kv_lora));
  tensors.push_back(split("attention.output", model.hidden, model.heads * latent.v_head));
  if (model.qkv_bias) {
    if (latent.q_lora > 0) {
      tensors.push_back(whole("attention.q_down.bias", latent.q_lora));
    }
    tensors.push_back(whole("attention.kv_down.bias", latent_width));
  }
}

void add_attention(const Transformer& model, std::vector<ParameterTensor>& tensors) {
  const std::int64_t query_width = model.heads * model.head_dim;
  const std::int64_t kv_width = model.kv_heads * model.head_dim;
  tensors.push_back(split("attention.q", query_width, model.hidden));
  tensors.push_back(split("attention.k", kv_width, model.hidden));
  tensors.push_back(split("attention.v", kv_width, model.hidden));
  if (model.qkv_bias) {
    tensors.push_back(split("attention.q.bias", query_width));
    tensors.push_back(split("attention.k.bias", kv_width));
    tensors.push_back(split("attention.v.bias", kv_width));
  }
  if (model.qk_norm) {
    tensors.push_back(
        whole("attention.q_norm", model.qk_norm_all_heads ? query_width : model.head_dim));
    tensors.push_back(
        whole("attention.k_norm", model.qk_norm_all_heads ? kv_width : model.head_dim));
  }
  tensors.push_back(split("attention.output", model.hidden, query_width));
}

// `biases`: on every matrix. `experts` > 0: one copy an expert.
void add_mlp(const Transformer& model, const std::string& prefix, std::int64_t inner, bool biases,
             std::int64_t experts, std::vector<ParameterTensor>& tensors) {
  const auto first = static_cast<std::ptrdiff_t>(tensors.size());
  if (model.gated_mlp) {
    tensors.push_back(split(prefix + ".gate", inner, model.hidden));
  }
  tensors.push_back(split(prefix + ".up", inner, model.hidden));
  tensors.push_back(split(prefix + ".down", model.hidden, inner));
  if (biases) {
    if (model.gated_mlp) {
      tensors.push_back(split(prefix + ".gate.bias", inner));
    }
    tensors.push_back(split(prefix + ".up.bias", inner));
    tensors.push_back(whole(prefix + ".down.bias", model.hidden));
  }
  if (experts > 0) {
    std::for_each(tensors.begin() + first, tensors.end(), [experts](ParameterTensor& tensor) {
      tensor.copies = experts;
      tensor.expert = true;
    });
  }
}

void add_experts(const Transformer& model, std::vector<ParameterTensor>& tensors) {
  const MixtureOfExperts& moe = *model.moe;
  tensors.push_back(whole("router", moe.experts, model.hidden));
  if (moe.router_bias) {
    tensors.push_back(whole("router.bias", moe.experts));
  }
  add_mlp(model, "experts", moe.expert_ffn, moe.expert_bias, moe.experts, tensors);
  if (moe.shared_ffn > 0) {
    add_mlp(model, "shared_expert", moe.shared_ffn, /*biases=*/false, /*experts=*/0, tensors);
  }
  if (moe.shared_gate) {
    tensors.push_back(whole("shared_expert.gate_weight", 1, model.hidden));
  }
}

std::vector<ParameterTensor> tensors_of_kind(const Transformer& model, bool moe_layer) {
  std::vector<ParameterTensor> tensors;
  add_norms(model, tensors);
  if (model.latent) {
    add_latent_attention(model, tensors);
  } else {
    add_attention(model, tensors);
  }
  if (model.attention_output_bias) {
    tensors.push_back(whole("attention.output.bias", model.hidden));
  }
  if (model.attention_sinks) {
    tensors.push_back(split("attention.sinks", model.heads));
  }
  if (moe_layer) {
    add_experts(model, tensors);
  } else {
    add_mlp(model, "mlp", model.ffn, model.mlp_bias, /*experts=*/0, tensors);
  }
  return tensors;
}

std::int64_t sum(const std::vector<ParameterTensor>& tensors) {
  std::int64_t total = 0;
  for (const ParameterTensor& tensor : tensors) {
    total += element_count(tensor);
  }
  return total;
}

// Elements that one token passes through.
std::int64_t active_sum(const Transformer& model, const std::vector<ParameterTensor>& tensors) {
  std::int64_t total = 0;
  for (const ParameterTensor& tensor : tensors) {
    const std::int64_t copies = tensor.expert ? model.moe->experts_per_token : tensor.copies;
    total += tensor.rows * tensor.columns * copies;
  }
  return total;
}

std::int64_t outside_layers(const Transformer& model) {
  std::int64_t total = embedding_parameter_count(model) + final_norm_parameter_count(model);
  if (!model.tied_embeddings) {
    total += head_parameter_count(model);
  } else if (model.head_bias) {
    total += model.vocab;
  }
  return total;
}

// Of the model's own layers, the one that `layer` is like: modules that predict further tokens are
// like the last.
std::size_t own_layer(const Transformer& model, std::int64_t layer) {
  TRIREME_CHECK(layer >= 0);
  TRIREME_CHECK(layer < trained_layers(model));
  return static_cast<std::size_t>(std::min(layer, model.layers - 1));
}

}  // namespace

std::int64_t element_count(const ParameterTensor& tensor) {
  return tensor.rows * tensor.columns * tensor.copies;
}

std::int64_t trained_layers(const Transformer& model) {
  return model.layers + model.multi_token_layers;
}

bool is_moe_layer(const Transformer& model, std::int64_t layer) {
  return model.moe && (model.moe_layers.empty() || model.moe_layers[own_layer(model, layer)]);
}

std::int64_t moe_layer_count(const Transformer& model) {
  if (!model.moe) {
    return 0;
  }
  return model.moe_layers.empty()
             ? model.layers
             : std::count(model.moe_layers.begin(), model.moe_layers.end(), true);
}

std::int64_t attention_window(const Transformer& model, std::int64_t layer) {
  const bool slides = model.sliding_layers.empty() || model.sliding_layers[own_layer(model, layer)];
  return slides ? model.sliding_window : 0;
}

std::vector<ParameterTensor> layer_tensors(const Transformer& model, std::int64_t layer) {
  std::vector<ParameterTensor> tensors = tensors_of_kind(model, is_moe_layer(model, layer));
  if (layer >= model.layers) {
    tensors.push_back(whole("token.norms", 3 * norm_vectors(model), model.hidden));
    tensors.push_back(split("token.projection", model.hidden, 2 * model.hidden));
  }
  return tensors;
}

std::vector<ParameterTensor> embedding_tensors(const Transformer& model) {
  const std::int64_t width = model.embedding_dim > 0 ? model.embedding_dim : model.hidden;
  std::vector<ParameterTensor> tensors{split("embedding.token", model.vocab, width)};
  if (model.position == Position::kLearned) {
    tensors.push_back(whole("embedding.position", model.position_rows, model.hidden));
  }
  if (width != model.hidden) {
    tensors.push_back(whole("embedding.project_in", model.hidden, width));
    tensors.push_back(whole("embedding.project_out", width, model.hidden));
  }
  if (model.embedding_norm) {
    tensors.push_back(whole("embedding.norm", norm_vectors(model), model.hidden));
  }
  return tensors;
}

std::vector<ParameterTensor> head_tensors(const Transformer& model) {
  const std::int64_t width = model.embedding_dim > 0 ? model.embedding_dim : model.hidden;
  std::vector<ParameterTensor> tensors{split("head", model.vocab, width)};
  if (model.head_bias) {
    tensors.push_back(split("head.bias", model.vocab));
  }
  return tensors;
}

std::int64_t layer_parameter_count(const Transformer& model, std::int64_t layer) {
  return sum(layer_tensors(model, layer));
}

std::int64_t embedding_parameter_count(const Transformer& model) {
  return sum(embedding_tensors(model));
}

std::int64_t head_parameter_count(const Transformer& model) {
  return sum(head_tensors(model));
}

std::int64_t final_norm_parameter_count(const Transformer& model) {
  return model.final_norm ? norm_vectors(model) * model.hidden : 0;
}

std::int64_t parameter_count(const Transformer& model) {
  const std::int64_t sparse = moe_layer_count(model);
  std::int64_t total = outside_layers(model);
  if (sparse > 0) {
    total += sparse * sum(tensors_of_kind(model, true));
  }
  return total + (model.layers - sparse) * sum(tensors_of_kind(model, false));
}

std::int64_t active_parameter_count(const Transformer& model) {
  const std::int64_t sparse = moe_layer_count(model);
  std::int64_t total = outside_layers(model);
  if (sparse > 0) {
    total += sparse * active_sum(model, tensors_of_kind(model, true));
  }
  return total + (model.layers - sparse) * sum(tensors_of_kind(model, false));
}

std::int64_t multi_token_parameter_count(const Transformer& model) {
  if (model.multi_token_layers == 0) {
    return 0;
  }
  return model.multi_token_layers * layer_parameter_count(model, model.layers);
}

}  // namespace trireme::models
