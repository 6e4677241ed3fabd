// The DeepSeek line: shared experts beside the routed, first layers dense, latent attention in
// most; GLM 4.5, dots.llm1, Ling, Ring, Solar Open, Youtu and K-EXAONE follow it.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "models/families.h"

namespace trireme::models {
namespace {

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

// Solar Open: GLM's experts in every layer of a llama.
Transformer read_solar_open(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.head_dim = 128, .max_sequence = 131072});
  model.attention_output_bias = false;
  read_deepseek_experts(fields, model,
                        {.experts = 128,
                         .experts_per_token = 8,
                         .expert_ffn = 1280,
                         .shared_ffn = 1,
                         .router_bias = true},
                        /*class_first_dense=*/0);
  return model;
}

// Youtu-LLM: DeepSeek's attention in dense layers.
Transformer read_youtu(ConfigFields& fields) {
  Transformer model = read_deepseek_base(fields);
  model.tied_embeddings = fields.flag("tie_word_embeddings", true);
  return model;
}

// DeepSeek's experts under the names that K-EXAONE and Ling give them, with what their classes
// assume.
MixtureOfExperts renamed_experts(ConfigFields& fields, const MixtureOfExperts& assumed,
                                 std::int64_t shared) {
  MixtureOfExperts moe = assumed;
  moe.experts = fields.count_or({"num_experts"}, assumed.experts);
  moe.experts_per_token = fields.count_or({"num_experts_per_tok"}, assumed.experts_per_token);
  moe.expert_ffn = fields.count_or({"moe_intermediate_size"}, assumed.expert_ffn);
  moe.shared_ffn = fields.count_or({"num_shared_experts"}, shared, /*low=*/0) * moe.expert_ffn;
  return moe;
}

// K-EXAONE: EXAONE's attention with DeepSeek's experts.
Transformer read_exaone_moe(ConfigFields& fields) {
  Transformer model = read_llama(fields);
  model.qk_norm = true;
  read_exaone_windows(fields, model);
  model.moe = renamed_experts(
      fields, {.experts = 64, .experts_per_token = 8, .expert_ffn = 1024, .router_bias = true}, 1);
  const std::int64_t first = fields.count_or({"first_k_dense_replace"}, 1, /*low=*/0);
  const std::vector<std::string> types = fields.texts("mlp_layer_types");
  if (!types.empty() && static_cast<std::int64_t>(types.size()) != model.layers) {
    fields.fail("mlp_layer_types", fmt::format("lists {} layers; num_hidden_layers is {}",
                                               types.size(), model.layers));
  }
  for (const std::string& type : types) {
    if (type != "sparse" && type != "dense") {
      fields.fail("mlp_layer_types",
                  fmt::format("names {}; sparse and dense would be right", type));
    }
  }
  set_moe_layers(model, [&](std::int64_t layer) {
    return types.empty() ? layer >= first : types[static_cast<std::size_t>(layer)] == "sparse";
  });
  model.multi_token_layers = fields.count_or({"num_nextn_predict_layers"}, 0, /*low=*/0);
  return model;
}

// Ling and Ring: DeepSeek's experts in a llama, with norms of q and k in the second version.
Transformer read_bailing_moe(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 32768});
  const bool biases = fields.flag("use_qkv_bias", false);
  model.qkv_bias = biases;
  model.attention_output_bias = fields.flag("use_bias", false);
  model.qk_norm = fields.flag("use_qk_norm", false);
  const bool bias = fields.flag("moe_router_enable_expert_bias", false);
  model.moe = renamed_experts(
      fields, {.experts = 64, .experts_per_token = 6, .expert_ffn = 1408, .router_bias = bias}, 0);
  const std::int64_t first = fields.count_or({"first_k_dense_replace"}, 0, /*low=*/0);
  set_moe_layers(model, [first](std::int64_t layer) { return layer >= first; });
  model.multi_token_layers = fields.count_or({"num_nextn_predict_layers"}, 0, /*low=*/0);
  return model;
}

constexpr NamedReader kDeepseekFamilies[] = {
    {"deepseek", read_deepseek_v1},        {"deepseek_v2", read_deepseek_v2},
    {"deepseek_v3", read_deepseek_v3},     {"kimi_k2", read_deepseek_v3},
    {"glm4_moe", read_glm4_moe},           {"glm4v_moe_text", read_glm4_moe},
    {"glm4_moe_lite", read_glm4_moe_lite}, {"dots1", read_dots1},
    {"solar_open", read_solar_open},       {"youtu", read_youtu},
    {"exaone_moe", read_exaone_moe},       {"bailing_moe", read_bailing_moe},
    {"bailing_moe_v2", read_bailing_moe},
};

}  // namespace

FamilyReader deepseek_family(const std::string& model_type) {
  return find_reader(kDeepseekFamilies, model_type);
}

}  // namespace trireme::models
