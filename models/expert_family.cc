// Mixtures of experts: mixtral, qwen2_moe, qwen3_moe, deepseek, gpt_oss and their kin.
#include <algorithm>
#include <array>
#include <utility>

#include "models/families.h"

namespace trireme::models {
namespace {

template <typename Sparse>
void set_moe_layers(Transformer& model, Sparse sparse) {
  model.moe_layers.resize(static_cast<std::size_t>(model.layers));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    model.moe_layers[static_cast<std::size_t>(layer)] = sparse(layer);
  }
  if (std::find(model.moe_layers.begin(), model.moe_layers.end(), false) ==
      model.moe_layers.end()) {
    model.moe_layers.clear();  // all of them
  }
}

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
  if (fields.flag("use_sliding_window", false)) {
    const std::int64_t first = fields.count_or({"max_window_layers"}, 28, /*low=*/0);
    model.sliding_window = fields.count_or({"sliding_window"}, 4096);
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      model.sliding_layers.push_back(layer >= first);
    }
    apply_layer_types(fields, model);
  }
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

// Experts of the DeepSeek line: shared ones beside the routed, first layers dense. A null number of
// routed experts means a dense model.
void read_deepseek_experts(ConfigFields& fields, Transformer& model,
                           const MixtureOfExperts& class_default, std::int64_t class_first_dense) {
  if (fields.mentions("n_routed_experts") && !fields.has({"n_routed_experts"})) {
    return;
  }
  MixtureOfExperts moe = class_default;
  moe.experts = fields.count_or({"n_routed_experts", "num_experts"}, moe.experts);
  moe.experts_per_token = fields.count_or({"num_experts_per_tok"}, moe.experts_per_token);
  moe.expert_ffn = fields.count_or({"moe_intermediate_size"}, moe.expert_ffn);
  const bool no_shared = fields.mentions("n_shared_experts") && !fields.has({"n_shared_experts"});
  const std::int64_t shared =
      no_shared ? 0 : fields.count_or({"n_shared_experts"}, moe.shared_ffn, /*low=*/0);
  moe.shared_ffn = shared * moe.expert_ffn;
  model.moe = moe;
  const std::int64_t first = fields.count_or({"first_k_dense_replace"}, class_first_dense, 0);
  const std::int64_t every = fields.count_or({"moe_layer_freq"}, 1);
  set_moe_layers(
      model, [first, every](std::int64_t layer) { return layer >= first && layer % every == 0; });
}

void read_latent_attention(ConfigFields& fields, Transformer& model) {
  LatentAttention latent;
  // The smaller models have no low-rank queries: null in their files, or left out by a tool.
  const bool by_class = fields.nested() && !fields.mentions("q_lora_rank");
  latent.q_lora = fields.count_or({"q_lora_rank"}, by_class ? 1536 : 0, /*low=*/0);
  latent.kv_lora = fields.count_or({"kv_lora_rank"}, 512);
  latent.qk_nope = fields.count_or({"qk_nope_head_dim"}, 128, /*low=*/0);
  latent.qk_rope = fields.count_or({"qk_rope_head_dim"}, 64, /*low=*/0);
  latent.v_head = fields.count_or({"v_head_dim"}, 128);
  model.latent = latent;
  model.kv_heads = model.heads;
  model.head_dim = latent.qk_nope + latent.qk_rope;
}

// The dimensions that do not depend on a head's width, which these models state apart.
Transformer read_deepseek_base(ConfigFields& fields) {
  Transformer model;
  model.hidden = fields.dimension({"hidden_size"});
  model.layers = fields.layer_count({"num_hidden_layers"});
  model.heads = fields.dimension({"num_attention_heads"});
  model.ffn = fields.dimension({"intermediate_size"});
  model.vocab = fields.dimension({"vocab_size"});
  model.max_sequence = fields.count_or({"max_position_embeddings"}, 4096);
  model.tied_embeddings = fields.flag("tie_word_embeddings", false);
  model.qkv_bias = model.attention_output_bias = fields.flag("attention_bias", false);
  read_latent_attention(fields, model);
  model.multi_token_layers = fields.count_or({"num_nextn_predict_layers"}, 0, /*low=*/0);
  return model;
}

Transformer read_deepseek_v2(ConfigFields& fields) {
  Transformer model = read_deepseek_base(fields);
  read_deepseek_experts(
      fields, model, {.experts = 64, .experts_per_token = 6, .expert_ffn = 1407, .shared_ffn = 2},
      /*class_first_dense=*/0);
  if (model.moe && fields.text_or("topk_method", "greedy") == "noaux_tc") {
    model.moe->router_bias = true;
  }
  return model;
}

Transformer read_deepseek_v3(ConfigFields& fields) {
  Transformer model = read_deepseek_base(fields);
  read_deepseek_experts(
      fields, model, {.experts = 256, .experts_per_token = 8, .expert_ffn = 2048, .shared_ffn = 1},
      /*class_first_dense=*/3);
  // The balancing bias is a parameter of the checkpoint, though no gradient reaches it.
  if (model.moe && fields.text_or("topk_method", "noaux_tc") == "noaux_tc") {
    model.moe->router_bias = true;
  }
  return model;
}

// DeepSeekMoE of 2024: llama's attention with DeepSeek's experts.
Transformer read_deepseek_v1(ConfigFields& fields) {
  Transformer model = read_llama(fields);
  if (fields.has({"n_routed_experts"})) {
    read_deepseek_experts(fields, model, {.experts_per_token = 6, .expert_ffn = 1407},
                          /*class_first_dense=*/0);
  }
  return model;
}

Transformer read_glm4_moe(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.head_dim = 128, .max_sequence = 131072});
  model.attention_output_bias = false;
  model.qk_norm = fields.flag("use_qk_norm", false);
  read_deepseek_experts(fields, model,
                        {.experts = 128,
                         .experts_per_token = 8,
                         .expert_ffn = 1408,
                         .shared_ffn = 1,
                         .router_bias = true},
                        /*class_first_dense=*/1);
  model.multi_token_layers = fields.count_or({"num_nextn_predict_layers"}, 0, /*low=*/0);
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

// dots.llm1: Qwen3's attention with DeepSeek's experts.
Transformer read_dots1(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.head_dim = 128, .max_sequence = 32768});
  model.qk_norm = true;
  read_deepseek_experts(fields, model,
                        {.experts = 128,
                         .experts_per_token = 6,
                         .expert_ffn = 1408,
                         .shared_ffn = 2,
                         .router_bias = true},
                        /*class_first_dense=*/1);
  return model;
}

// GLM-4.7-Flash: latent attention with GLM's experts.
Transformer read_glm4_moe_lite(ConfigFields& fields) {
  Transformer model = read_deepseek_base(fields);
  read_deepseek_experts(fields, model,
                        {.experts = 64,
                         .experts_per_token = 4,
                         .expert_ffn = 1536,
                         .shared_ffn = 1,
                         .router_bias = true},
                        /*class_first_dense=*/1);
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
  const std::int64_t last = fields.count_or({"moe_layer_end_index"}, model.layers - 1, /*low=*/0);
  const std::int64_t every = fields.count_or({"moe_layer_interval"}, 1);
  set_moe_layers(model, [first, last, every](std::int64_t layer) {
    return layer >= first && layer <= last && (layer + 1) % every == 0;
  });
  return model;
}

// Ling and Ring: DeepSeek's experts in a llama, with norms of q and k in the second version.
Transformer read_bailing_moe(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 32768});
  const bool biases = fields.flag("use_qkv_bias", false);
  model.qkv_bias = biases;
  model.attention_output_bias = fields.flag("use_bias", false);
  model.qk_norm = fields.flag("use_qk_norm", false);
  MixtureOfExperts moe{
      .experts = fields.count_or({"num_experts"}, 64),
      .experts_per_token = fields.count_or({"num_experts_per_tok"}, 6),
      .expert_ffn = fields.count_or({"moe_intermediate_size"}, 1408),
      .router_bias = fields.flag("moe_router_enable_expert_bias", false),
  };
  moe.shared_ffn = fields.count_or({"num_shared_experts"}, 0, /*low=*/0) * moe.expert_ffn;
  model.moe = moe;
  const std::int64_t first = fields.count_or({"first_k_dense_replace"}, 0, /*low=*/0);
  set_moe_layers(model, [first](std::int64_t layer) { return layer >= first; });
  model.multi_token_layers = fields.count_or({"num_nextn_predict_layers"}, 0, /*low=*/0);
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

constexpr std::array<std::pair<const char*, FamilyReader>, 23> kFamilies = {{
    {"mixtral", read_mixtral},
    {"granitemoe", read_mixtral},
    {"phimoe", read_phimoe},
    {"olmoe", read_olmoe},
    {"dbrx", read_dbrx},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3_moe", read_qwen3_moe},
    {"qwen3_vl_moe_text", read_qwen3_moe},
    {"deepseek", read_deepseek_v1},
    {"deepseek_v2", read_deepseek_v2},
    {"deepseek_v3", read_deepseek_v3},
    {"kimi_k2", read_deepseek_v3},
    {"glm4_moe", read_glm4_moe},
    {"glm4v_moe_text", read_glm4_moe},
    {"glm4_moe_lite", read_glm4_moe_lite},
    {"minimax_m2", read_minimax_m2},
    {"dots1", read_dots1},
    {"ernie4_5_moe", read_ernie_moe},
    {"bailing_moe", read_bailing_moe},
    {"bailing_moe_v2", read_bailing_moe},
    {"gpt_oss", read_gpt_oss},
    {"llama4", read_llama4},
    {"llama4_text", read_llama4},
}};

}  // namespace

FamilyReader expert_family(const std::string& model_type) {
  const auto* found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                   [&](const auto& family) { return model_type == family.first; });
  return found == kFamilies.end() ? nullptr : found->second;
}

}  // namespace trireme::models
