// Mixtures of experts: mixtral, qwen2_moe, qwen3_moe, gpt_oss and their kin.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "models/families.h"

namespace trireme::models {
namespace {

Transformer read_mixtral(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 4096,
                                               .ffn = 14336,
                                               .layers = 32,
                                               .heads = 32,
                                               .kv_heads = 8,
                                               .vocab = 32000,
                                               .max_sequence = 131072});
  model.sliding_window = fields.count_or({"sliding_window"}, 0);
  model.moe = MixtureOfExperts{
      .experts = fields.count_or({"num_local_experts", "num_experts"}, 8),
      .experts_per_token = fields.count_or({"num_experts_per_tok"}, 2),
      .expert_ffn = model.ffn,
  };
  return model;
}

// Granite with experts that every token reads beside the routed ones.
Transformer read_granite_shared(ConfigFields& fields) {
  Transformer model = read_mixtral(fields);
  model.moe->shared_ffn = fields.count_or({"shared_intermediate_size"}, 0, /*low=*/0);
  return model;
}

// Granite 4: attention among Mamba layers, or alone; the shared MLP beside experts, or alone.
Transformer read_granite_hybrid(ConfigFields& fields) {
  const std::vector<std::string> kinds = fields.texts("layer_types");
  const auto attends = [](const std::string& kind) { return kind == "attention"; };
  if (kinds.empty() || !std::all_of(kinds.begin(), kinds.end(), attends)) {
    fields.fail("model_type",
                "is \"granitemoehybrid\", and layer_types says that it has state-space layers "
                "(Mamba), which no model description here can hold");
  }
  const bool experts = fields.count_or({"num_local_experts"}, 8, /*low=*/0) > 0;
  Transformer model = experts ? read_granite_shared(fields)
                              : read_llama_like(fields, {.hidden = 4096,
                                                         .ffn = 14336,
                                                         .layers = 32,
                                                         .heads = 32,
                                                         .kv_heads = 8,
                                                         .vocab = 32000});
  if (static_cast<std::int64_t>(kinds.size()) != model.layers) {
    fields.fail("layer_types", fmt::format("lists {} layers; num_hidden_layers is {}", kinds.size(),
                                           model.layers));
  }
  if (!experts) {
    model.ffn = fields.count_or({"shared_intermediate_size"}, 1024);
  }
  if (fields.text_or("position_embedding_type", "") != "rope") {
    model.position = Position::kNone;
  }
  return model;
}

// Phi-3.5-MoE: Mixtral with LayerNorm and biases on attention and head.
Transformer read_phimoe(ConfigFields& fields) {
  Transformer model = read_mixtral(fields);
  model.norm = Norm::kLayerNorm;
  model.head_bias = fields.flag("lm_head_bias", false);
  return model;
}

Transformer read_olmoe(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 4096});
  model.qk_norm = model.qk_norm_all_heads = true;
  model.moe = MixtureOfExperts{
      .experts = fields.count_or({"num_experts", "num_local_experts"}, 64),
      .experts_per_token = fields.count_or({"num_experts_per_tok"}, 8),
      .expert_ffn = model.ffn,
  };
  return model;
}

// FlexOlmo: OLMo 2's attention, an expert for every data set.
Transformer read_flex_olmo(ConfigFields& fields) {
  Transformer model = read_olmoe(fields);
  model.moe->experts = fields.count_or({"num_experts", "num_local_experts"}, 7);
  model.moe->experts_per_token = fields.count_or({"num_experts_per_tok"}, 5);
  return model;
}

// Files may state a count of experts layer by layer.
std::int64_t same_in_all_layers(ConfigFields& fields, const char* name, std::int64_t fallback,
                                std::int64_t low = 1) {
  if (!fields.is_list(name)) {
    return fields.count_or({name}, fallback, low);
  }
  const std::vector<std::int64_t> counts = fields.indices(name);
  if (counts.empty() ||
      std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end()) {
    fields.fail(name,
                "is not the same in all layers; layers of different experts cannot be "
                "planned for");
  }
  if (counts.front() < low) {
    fields.fail(
        name, fmt::format("is {} in all layers; at least {} would be right", counts.front(), low));
  }
  return counts.front();
}

// Hunyuan-A13B: experts and a shared one of the same width in every layer.
Transformer read_hunyuan_moe(ConfigFields& fields) {
  Transformer model = read_llama(fields);
  if (fields.flag("use_cla", false)) {
    fields.fail("use_cla", "is true; layers that share keys and values cannot be planned for");
  }
  model.qk_norm = fields.flag("use_qk_norm", true);
  MixtureOfExperts moe{
      .experts = same_in_all_layers(fields, "num_experts", 1),
      .experts_per_token = same_in_all_layers(fields, "moe_topk", 1),
      .expert_ffn = same_in_all_layers(fields, "moe_intermediate_size", model.ffn),
  };
  moe.shared_ffn = same_in_all_layers(fields, "num_shared_expert", 1, /*low=*/0) * moe.expert_ffn;
  model.moe = moe;
  return model;
}

// DBRX: LayerNorm without bias, its attention and experts described in objects of their own.
Transformer read_dbrx(ConfigFields& fields) {
  Transformer model;
  model.hidden = fields.dimension({"d_model"});
  model.layers = fields.layer_count({"n_layers"});
  model.heads = fields.dimension({"n_heads"});
  model.head_dim = head_dimension(fields, model.hidden, model.heads, 0);
  ConfigFields attention = fields.object("attn_config");
  model.kv_heads = attention.count_or({"kv_n_heads"}, 1);
  ConfigFields experts = fields.object("ffn_config");
  model.moe = MixtureOfExperts{
      .experts = experts.count_or({"moe_num_experts"}, 4),
      .experts_per_token = experts.count_or({"moe_top_k"}, 1),
      .expert_ffn = experts.count_or({"ffn_hidden_size"}, 3584),
  };
  model.vocab = fields.dimension({"vocab_size"});
  model.max_sequence = fields.count_or({"max_seq_len"}, 2048);
  model.norm = Norm::kLayerNorm;
  model.norm_bias = false;
  model.tied_embeddings = fields.flag("tie_word_embeddings", false);
  return model;
}

void read_qwen_layers(ConfigFields& fields, Transformer& model) {
  const std::int64_t step = fields.count_or({"decoder_sparse_step"}, 1);
  const std::vector<std::int64_t> dense = fields.indices("mlp_only_layers");
  set_moe_layers(model, [&](std::int64_t layer) {
    return std::find(dense.begin(), dense.end(), layer) == dense.end() && (layer + 1) % step == 0;
  });
  read_qwen_window(fields, model);
}

Transformer read_qwen2_moe(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 2048,
                                               .ffn = 5632,
                                               .layers = 24,
                                               .heads = 16,
                                               .kv_heads = 16,
                                               .vocab = 151936,
                                               .max_sequence = 32768});
  model.qkv_bias = fields.flag("qkv_bias", true);
  model.attention_output_bias = false;
  model.moe = MixtureOfExperts{
      .experts = fields.count_or({"num_experts", "num_local_experts"}, 60),
      .experts_per_token = fields.count_or({"num_experts_per_tok"}, 4),
      .expert_ffn = fields.count_or({"moe_intermediate_size"}, 1408),
      .shared_ffn = fields.count_or({"shared_expert_intermediate_size"}, 5632, /*low=*/0),
      .shared_gate = true,
  };
  read_qwen_layers(fields, model);
  return model;
}

Transformer read_qwen3_moe(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 2048,
                                               .ffn = 6144,
                                               .layers = 24,
                                               .heads = 32,
                                               .kv_heads = 4,
                                               .vocab = 151936,
                                               .max_sequence = 32768});
  model.qk_norm = true;
  model.moe = MixtureOfExperts{
      .experts = fields.count_or({"num_experts", "num_local_experts"}, 128),
      .experts_per_token = fields.count_or({"num_experts_per_tok"}, 8),
      .expert_ffn = fields.count_or({"moe_intermediate_size"}, 768),
  };
  read_qwen_layers(fields, model);
  return model;
}

// MiniMax-M2: Mixtral with norms over all heads and a router that balances by a bias.
Transformer read_minimax_m2(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.head_dim = 128, .max_sequence = 196608});
  model.qk_norm = fields.flag("use_qk_norm", true);
  model.qk_norm_all_heads =
      model.qk_norm && fields.text_or("qk_norm_type", "per_layer") == "per_layer";
  model.moe = MixtureOfExperts{
      .experts = fields.count_or({"num_local_experts", "num_experts"}, 256),
      .experts_per_token = fields.count_or({"num_experts_per_tok"}, 8),
      .expert_ffn = model.ffn,
      .router_bias = fields.flag("use_routing_bias", true),
  };
  const bool predicts = fields.flag("use_mtp", false);
  model.multi_token_layers = predicts ? fields.count_or({"num_mtp_modules"}, 0, /*low=*/0) : 0;
  return model;
}

// ERNIE 4.5: experts from one layer on to another, shared ones beside them.
Transformer read_ernie_moe(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 131072, .tied = true});
  const bool biases = fields.flag("use_bias", false);
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = biases;
  MixtureOfExperts moe{
      .experts = fields.count_or({"moe_num_experts"}, 64),
      .experts_per_token = fields.count_or({"moe_k"}, 6),
      .expert_ffn = fields.count_or({"moe_intermediate_size"}, 1536),
      .router_bias = true,
  };
  moe.shared_ffn = fields.count_or({"moe_num_shared_experts"}, 2, /*low=*/0) * moe.expert_ffn;
  model.moe = moe;
  const std::int64_t first = fields.count_or({"moe_layer_start_index"}, 1, /*low=*/0);
  // -1, its default, is the last layer.
  const std::int64_t given = fields.count_or({"moe_layer_end_index"}, -1, /*low=*/-1);
  const std::int64_t last = given < 0 ? model.layers - 1 : given;
  const std::int64_t every = fields.count_or({"moe_layer_interval"}, 1);
  set_moe_layers(model, [first, last, every](std::int64_t layer) {
    return layer >= first && layer <= last && (layer + 1) % every == 0;
  });
  return model;
}

Transformer read_gpt_oss(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 2880,
                                               .ffn = 2880,
                                               .layers = 36,
                                               .heads = 64,
                                               .kv_heads = 8,
                                               .head_dim = 64,
                                               .vocab = 201088,
                                               .max_sequence = 131072});
  model.qkv_bias = model.attention_output_bias = fields.flag("attention_bias", true);
  model.attention_sinks = true;
  model.moe = MixtureOfExperts{
      .experts = fields.count_or({"num_local_experts", "num_experts"}, 128),
      .experts_per_token = fields.count_or({"num_experts_per_tok", "experts_per_token"}, 4),
      .expert_ffn = model.ffn,
      .router_bias = true,
      .expert_bias = true,
  };
  model.sliding_window = fields.count_or({"sliding_window"}, 128);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    model.sliding_layers.push_back(layer % 2 == 0);
  }
  apply_layer_types(fields, model);
  return model;
}

Transformer read_llama4(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 5120,
                                               .ffn = 8192,
                                               .layers = 48,
                                               .heads = 40,
                                               .kv_heads = 8,
                                               .head_dim = 128,
                                               .vocab = 202048,
                                               .max_sequence = 131072});
  // Its norms of q and k have no parameters; intermediate_size is an expert's.
  model.moe = MixtureOfExperts{
      .experts = fields.count_or({"num_local_experts", "num_experts"}, 16),
      .experts_per_token = fields.count_or({"num_experts_per_tok"}, 1),
      .expert_ffn = model.ffn,
      .shared_ffn = model.ffn,
  };
  model.ffn = fields.count_or({"intermediate_size_mlp"}, 16384);
  const std::vector<std::int64_t> listed = fields.indices("moe_layers");
  const std::int64_t step = fields.count_or({"interleave_moe_layer_step"}, 1);
  set_moe_layers(model, [&](std::int64_t layer) {
    return listed.empty() ? (layer + 1) % step == 0
                          : std::find(listed.begin(), listed.end(), layer) != listed.end();
  });
  model.sliding_window = fields.count_or({"attention_chunk_size"}, 8192);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    model.sliding_layers.push_back((layer + 1) % 4 != 0);
  }
  apply_layer_types(fields, model);
  return model;
}

constexpr NamedReader kExpertFamilies[] = {
    {"mixtral", read_mixtral},
    {"granitemoe", read_mixtral},
    {"granitemoeshared", read_granite_shared},
    {"granitemoehybrid", read_granite_hybrid},
    {"phimoe", read_phimoe},
    {"olmoe", read_olmoe},
    {"flex_olmo", read_flex_olmo},
    {"hunyuan_v1_moe", read_hunyuan_moe},
    {"dbrx", read_dbrx},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3_moe", read_qwen3_moe},
    {"qwen3_vl_moe_text", read_qwen3_moe},
    {"minimax_m2", read_minimax_m2},
    {"ernie4_5_moe", read_ernie_moe},
    {"gpt_oss", read_gpt_oss},
    {"llama4", read_llama4},
    {"llama4_text", read_llama4},
};

}  // namespace

void set_moe_layers(Transformer& model, const std::function<bool(std::int64_t)>& sparse) {
  model.moe_layers.resize(static_cast<std::size_t>(model.layers));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    model.moe_layers[static_cast<std::size_t>(layer)] = sparse(layer);
  }
  if (std::find(model.moe_layers.begin(), model.moe_layers.end(), false) ==
      model.moe_layers.end()) {
    model.moe_layers.clear();  // all of them
  }
}

FamilyReader expert_family(const std::string& model_type) {
  return find_reader(kExpertFamilies, model_type);
}

}  // namespace trireme::models
