// llama, mistral, qwen2, qwen3, phi3 and others of that build.
#include <fmt/format.h>

#include <string>

#include "models/families.h"

namespace trireme::models {
namespace {

Transformer read_mistral(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 4096,
                                               .ffn = 14336,
                                               .layers = 32,
                                               .heads = 32,
                                               .kv_heads = 8,
                                               .vocab = 32000,
                                               .max_sequence = 131072});
  // The class slides over 4096 tokens unless the file says null.
  const bool off = fields.mentions("sliding_window") && !fields.has({"sliding_window"});
  model.sliding_window = off ? 0 : fields.count_or({"sliding_window"}, 4096);
  apply_layer_types(fields, model);
  return model;
}

Transformer read_qwen2(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 4096,
                                               .ffn = 22016,
                                               .layers = 32,
                                               .heads = 32,
                                               .kv_heads = 32,
                                               .vocab = 151936,
                                               .max_sequence = 32768});
  model.qkv_bias = true;
  model.attention_output_bias = false;
  read_qwen_window(fields, model);
  return model;
}

Transformer read_qwen3(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 4096,
                                               .ffn = 22016,
                                               .layers = 32,
                                               .heads = 32,
                                               .kv_heads = 32,
                                               .head_dim = 128,
                                               .vocab = 151936,
                                               .max_sequence = 32768});
  model.qk_norm = true;
  read_qwen_window(fields, model);
  return model;
}

Transformer read_phi3(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.hidden = 3072,
                                               .ffn = 8192,
                                               .layers = 32,
                                               .heads = 32,
                                               .vocab = 32064,
                                               .max_sequence = 4096});
  // Its one fused matrix each for q, k, v and for gate and up has no bias, whatever the file says.
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
  model.sliding_window = fields.count_or({"sliding_window"}, 0);
  return model;
}

Transformer read_smollm3(ConfigFields& fields) {
  return read_llama_like(fields, {.max_sequence = 32768, .tied = true});
}

Transformer read_glm(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.head_dim = 128, .max_sequence = 131072});
  model.attention_output_bias = false;
  return model;
}

Transformer read_glm4(ConfigFields& fields) {
  Transformer model = read_glm(fields);
  model.norms_per_layer = 4;
  return model;
}

Transformer read_olmo2(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 2048});
  model.qk_norm = model.qk_norm_all_heads = true;
  return model;
}

// OLMo 3 slides on three layers of four.
Transformer read_olmo3(ConfigFields& fields) {
  Transformer model = read_olmo2(fields);
  model.sliding_window = fields.count_or({"sliding_window"}, 4096);
  set_sliding_layers(model, [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
  apply_layer_types(fields, model);
  return model;
}

// ERNIE 4.5's dense models; Hunyuan's, which normalise q and k.
Transformer read_ernie(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 131072, .tied = true});
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = fields.flag("use_bias", false);
  return model;
}
Transformer read_hunyuan(ConfigFields& fields) {
  Transformer model = read_llama(fields);
  model.qk_norm = fields.flag("use_qk_norm", true);
  return model;
}

// MiMo of 2025: Qwen2 with extra prediction modules.
Transformer read_mimo(ConfigFields& fields) {
  Transformer model = read_qwen2(fields);
  model.multi_token_layers = fields.count_or({"num_nextn_predict_layers"}, 0, /*low=*/0);
  return model;
}

// OLMo of 2024: norms without parameters.
Transformer read_olmo(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 2048});
  model.norms_per_layer = 0;
  model.final_norm = false;
  return model;
}

// Qwen of 2023 writes the sum of gate and up as its inner size.
Transformer read_qwen(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 8192});
  if (model.ffn % 2 != 0) {
    fields.fail("intermediate_size", "is odd; this family writes twice the inner size");
  }
  model.ffn /= 2;
  model.qkv_bias = true;
  model.attention_output_bias = false;
  return model;
}

Transformer read_internlm(ConfigFields& fields) {
  Transformer model = read_llama(fields);
  model.qkv_bias = model.attention_output_bias = fields.flag("bias", true);
  return model;
}

Transformer read_seed_oss(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.head_dim = 128, .max_sequence = 524288});
  model.qkv_bias = fields.flag("attention_bias", true);
  model.attention_output_bias = fields.flag("attention_out_bias", false);
  return model;
}

Transformer read_exaone4(ConfigFields& fields) {
  Transformer model = read_llama(fields);
  model.qk_norm = true;
  read_exaone_windows(fields, model);
  return model;
}

// CWM slides on three layers of four, beginning behind the first.
Transformer read_cwm(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.head_dim = 128, .max_sequence = 131072});
  model.sliding_window = fields.count_or({"sliding_window"}, 8192);
  set_sliding_layers(model, [](std::int64_t layer) { return layer % 4 != 0; });
  apply_layer_types(fields, model);
  return model;
}

// Jais 2: Nemotron's MLP, LayerNorm and biases everywhere.
Transformer read_jais2(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 8192});
  model.norm = Norm::kLayerNorm;
  model.gated_mlp = false;
  model.qkv_bias = model.attention_output_bias = fields.flag("attention_bias", true);
  model.mlp_bias = fields.flag("mlp_bias", true);
  return model;
}

Transformer read_arcee(ConfigFields& fields) {
  Transformer model = read_llama(fields);
  model.gated_mlp = false;
  return model;
}

Transformer read_nemotron(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 4096});
  model.norm = Norm::kLayerNorm;
  model.gated_mlp = false;
  return model;
}

Transformer read_cohere(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 8192, .tied = true});
  model.norm = Norm::kLayerNorm;
  model.norm_bias = false;
  model.norms_per_layer = 1;
  model.parallel_block = true;
  model.qk_norm = model.qk_norm_all_heads = fields.flag("use_qk_norm", false);
  return model;
}

Transformer read_stablelm(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.max_sequence = 4096});
  if (fields.flag("qk_layernorm", false)) {
    fields.fail("qk_layernorm", "is true; norms of each head apart cannot be planned for");
  }
  model.norm = Norm::kLayerNorm;
  model.qkv_bias = fields.flag("use_qkv_bias", false);
  model.attention_output_bias = false;
  model.parallel_block = fields.flag("use_parallel_residual", false);
  model.norms_per_layer = model.parallel_block ? 1 : 2;
  return model;
}

Transformer read_starcoder2(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, {.kv_heads = 2, .max_sequence = 4096, .tied = true});
  const bool biases = fields.flag("use_bias", true);
  model.norm = Norm::kLayerNorm;
  model.gated_mlp = false;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = biases;
  model.sliding_window = fields.count_or({"sliding_window"}, 0);
  return model;
}

// Command R7B slides on three layers of four.
Transformer read_cohere2(ConfigFields& fields) {
  Transformer model = read_cohere(fields);
  model.sliding_window = fields.count_or({"sliding_window"}, 4096);
  const std::int64_t pattern =
      fields.count_or({"sliding_window_pattern", "_sliding_window_pattern"}, 4);
  set_sliding_layers(model, [pattern](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  apply_layer_types(fields, model);
  return model;
}

constexpr NamedReader kDenseFamilies[] = {
    {"llama", read_llama},
    {"mistral", read_mistral},
    {"ministral", read_mistral},
    {"qwen2", read_qwen2},
    {"qwen2_vl", read_qwen2},
    {"qwen2_vl_text", read_qwen2},
    {"qwen2_5_vl", read_qwen2},
    {"qwen2_5_vl_text", read_qwen2},
    {"qwen3", read_qwen3},
    {"qwen3_vl_text", read_qwen3},
    {"phi3", read_phi3},
    {"phi4", read_phi3},
    {"smollm3", read_smollm3},
    {"glm4", read_glm4},
    {"glm", read_glm},
    {"ministral3", read_llama},
    {"olmo3", read_olmo3},
    {"ernie4_5", read_ernie},
    {"hunyuan_v1_dense", read_hunyuan},
    {"mimo", read_mimo},
    {"olmo", read_olmo},
    {"olmo2", read_olmo2},
    {"qwen", read_qwen},
    {"internlm", read_internlm},
    {"seed_oss", read_seed_oss},
    {"exaone4", read_exaone4},
    {"arcee", read_arcee},
    {"nemotron", read_nemotron},
    {"cohere", read_cohere},
    {"cohere2", read_cohere2},
    {"stablelm", read_stablelm},
    {"starcoder2", read_starcoder2},
    {"granite", read_llama},
    {"internlm2", read_llama},
    {"baichuan", read_llama},
    {"minicpm", read_llama},
    {"aquila", read_llama},
    {"helium", read_llama},
    {"yi", read_llama},
    {"Yi", read_llama},
    {"cwm", read_cwm},
    {"jais2", read_jais2},
};

}  // namespace

void read_qwen_window(ConfigFields& fields, Transformer& model) {
  if (fields.flag("use_sliding_window", false)) {
    const std::int64_t first = fields.count_or({"max_window_layers"}, 28, /*low=*/0);
    model.sliding_window = fields.count_or({"sliding_window"}, 4096);
    set_sliding_layers(model, [first](std::int64_t layer) { return layer >= first; });
    apply_layer_types(fields, model);
  }
}

Transformer read_llama_like(ConfigFields& fields, const ClassDefaults& defaults) {
  Transformer model;
  model.hidden = fields.dimension({"hidden_size"}, defaults.hidden);
  model.layers = fields.layer_count({"num_hidden_layers"}, defaults.layers);
  model.heads = fields.dimension({"num_attention_heads"}, defaults.heads);
  // Silence means one key-value head a query head, except where whatever equals the class's own
  // default is left out.
  const bool by_class =
      fields.nested() && defaults.kv_heads > 0 && model.heads % defaults.kv_heads == 0;
  const std::int64_t silent = by_class ? defaults.kv_heads : model.heads;
  model.kv_heads = fields.count_or({"num_key_value_heads"}, silent);
  model.head_dim = head_dimension(fields, model.hidden, model.heads, defaults.head_dim);
  model.ffn = fields.dimension({"intermediate_size"}, defaults.ffn);
  model.vocab = fields.dimension({"vocab_size"}, defaults.vocab);
  model.max_sequence = fields.count_or({"max_position_embeddings"}, defaults.max_sequence);
  model.tied_embeddings = fields.flag("tie_word_embeddings", defaults.tied);
  model.qkv_bias = model.attention_output_bias = fields.flag("attention_bias", false);
  model.mlp_bias = fields.flag("mlp_bias", false);
  return model;
}

Transformer read_llama(ConfigFields& fields) {
  return read_llama_like(fields,
                         {.hidden = 4096, .ffn = 11008, .layers = 32, .heads = 32, .vocab = 32000});
}

void set_sliding_layers(Transformer& model, const std::function<bool(std::int64_t)>& slides) {
  model.sliding_layers.resize(static_cast<std::size_t>(model.layers));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    model.sliding_layers[static_cast<std::size_t>(layer)] = slides(layer);
  }
}

// The pattern is a number of layers, the last of which sees all, or a word of L and G.
void read_exaone_windows(ConfigFields& fields, Transformer& model) {
  const bool off = fields.mentions("sliding_window") && !fields.has({"sliding_window"});
  if (off) {
    return;
  }
  model.sliding_window = fields.count_or({"sliding_window"}, 4096);
  if (fields.is_text("sliding_window_pattern")) {
    const std::string word = fields.text_or("sliding_window_pattern", "");
    if (word.empty() || word.find_first_not_of("LG") != std::string::npos) {
      fields.fail("sliding_window_pattern",
                  fmt::format("is \"{}\"; a number of layers or a word of L (windows) and G (the "
                              "whole sequence) would be right",
                              word));
    }
    set_sliding_layers(model, [&](std::int64_t layer) {
      return layer + 1 < model.layers && word[static_cast<std::size_t>(layer) % word.size()] == 'L';
    });
  } else {
    const std::int64_t every = fields.count_or({"sliding_window_pattern"}, 4);
    set_sliding_layers(model, [&](std::int64_t layer) {
      return layer + 1 < model.layers && (layer + 1) % every != 0;
    });
  }
  apply_layer_types(fields, model);
}

void apply_layer_types(ConfigFields& fields, Transformer& model) {
  const std::vector<std::string> types = fields.texts("layer_types");
  if (types.empty()) {
    return;
  }
  if (static_cast<std::int64_t>(types.size()) != model.layers) {
    fields.fail("layer_types", fmt::format("lists {} layers; num_hidden_layers is {}", types.size(),
                                           model.layers));
  }
  model.sliding_layers.assign(types.size(), false);
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    // A chunk is taken as a window of its length: an upper bound of the scores in it.
    const bool slides = types[layer] == "sliding_attention" || types[layer] == "chunked_attention";
    if (!slides && types[layer] != "full_attention") {
      fields.fail("layer_types", fmt::format("names {}; only full_attention, sliding_attention and "
                                             "chunked_attention can be planned for",
                                             types[layer]));
    }
    model.sliding_layers[layer] = slides;
  }
}

FamilyReader dense_family(const std::string& model_type) {
  return find_reader(kDenseFamilies, model_type);
}

}  // namespace trireme::models
