// GPT-2 and the models built like it: gpt_neox, falcon, opt, bloom, phi, gptj, mpt, gpt_bigcode.
#include <fmt/format.h>

#include <algorithm>

#include "models/families.h"

namespace trireme::models {
namespace {

// Biases everywhere, LayerNorm, two MLP matrices.
Transformer gpt_build() {
  Transformer model;
  model.norm = Norm::kLayerNorm;
  model.gated_mlp = false;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  return model;
}

// Shortened files leave out the number of heads, which no parameter count depends on: then the
// class's default where it divides the width, else heads of 64.
std::int64_t head_count(ConfigFields& fields, ConfigFields::Names names, std::int64_t class_default,
                        std::int64_t hidden) {
  if (fields.has(names)) {
    return fields.count_or(names, 0);
  }
  if (hidden % class_default == 0) {
    return class_default;
  }
  if (hidden % 64 == 0) {
    return hidden / 64;
  }
  fields.fail(*names.begin(), fmt::format("is missing, and neither {} heads nor heads of 64 divide "
                                          "the hidden size {}",
                                          class_default, hidden));
}

void set_heads(ConfigFields& fields, Transformer& model, std::int64_t heads) {
  model.heads = model.kv_heads = heads;
  model.head_dim = head_dimension(fields, model.hidden, heads, 0);
}

Transformer read_gpt2(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"n_embd", "hidden_size"}, 768);
  model.layers = fields.layer_count({"n_layer", "num_hidden_layers"}, 12);
  set_heads(fields, model, head_count(fields, {"n_head", "num_attention_heads"}, 12, model.hidden));
  model.ffn = fields.count_or({"n_inner"}, 4 * model.hidden);
  model.vocab = fields.dimension({"vocab_size"}, 50257);
  model.position = Position::kLearned;
  model.max_sequence = fields.count_or({"n_positions", "n_ctx", "max_position_embeddings"}, 1024);
  model.position_rows = model.max_sequence;
  model.tied_embeddings = fields.flag("tie_word_embeddings", true);
  return model;
}

// GPT-2 whose q, k and v have no bias, under other names.
Transformer read_gpt_neo(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"hidden_size"}, 2048);
  model.layers = fields.layer_count({"num_layers", "num_hidden_layers"}, 24);
  set_heads(fields, model,
            head_count(fields, {"num_heads", "num_attention_heads"}, 16, model.hidden));
  model.ffn = fields.count_or({"intermediate_size"}, 4 * model.hidden);
  model.vocab = fields.dimension({"vocab_size"}, 50257);
  model.qkv_bias = false;
  model.position = Position::kLearned;
  model.max_sequence = model.position_rows = fields.count_or({"max_position_embeddings"}, 2048);
  model.tied_embeddings = fields.flag("tie_word_embeddings", true);
  return model;
}

// StarCoder: GPT-2 with one key-value head.
Transformer read_gpt_bigcode(ConfigFields& fields) {
  Transformer model = read_gpt2(fields);
  if (fields.flag("multi_query", true)) {
    model.kv_heads = 1;
  }
  return model;
}

Transformer read_gptj(ConfigFields& fields) {
  Transformer model = read_gpt2(fields);
  model.position = Position::kRotary;
  model.position_rows = 0;
  model.qkv_bias = model.attention_output_bias = false;
  model.norms_per_layer = 1;
  model.parallel_block = true;
  model.head_bias = true;
  model.tied_embeddings = fields.flag("tie_word_embeddings", false);
  return model;
}

Transformer read_gpt_neox(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"hidden_size"}, 6144);
  model.layers = fields.layer_count({"num_hidden_layers"}, 44);
  set_heads(fields, model, head_count(fields, {"num_attention_heads"}, 64, model.hidden));
  model.ffn = fields.dimension({"intermediate_size"}, 24576);
  model.vocab = fields.dimension({"vocab_size"}, 50432);
  model.max_sequence = fields.count_or({"max_position_embeddings"}, 2048);
  model.qkv_bias = model.attention_output_bias = fields.flag("attention_bias", true);
  model.parallel_block = fields.flag("use_parallel_residual", true);
  model.tied_embeddings = fields.flag("tie_word_embeddings", false);
  return model;
}

// Phi-1, Phi-2: one norm, parallel block, biases everywhere and on the head.
Transformer read_phi(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"hidden_size", "n_embd"}, 2048);
  model.layers = fields.layer_count({"num_hidden_layers", "n_layer"}, 24);
  set_heads(fields, model, head_count(fields, {"num_attention_heads", "n_head"}, 32, model.hidden));
  model.kv_heads = fields.count_or({"num_key_value_heads"}, model.heads);
  model.ffn = fields.count_or({"intermediate_size", "n_inner"}, 4 * model.hidden);
  model.vocab = fields.dimension({"vocab_size"}, 51200);
  model.max_sequence = fields.count_or({"max_position_embeddings", "n_positions"}, 2048);
  model.norms_per_layer = 1;
  model.parallel_block = true;
  model.head_bias = true;
  model.tied_embeddings = fields.flag("tie_word_embeddings", false);
  return model;
}

// Three builds under one name: 7B (one key-value head, parallel block, one norm), 40B and later
// (new decoder: groups and two norms, or one), and the RW models (a GPT with ALiBi).
Transformer read_falcon(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"hidden_size", "n_embed"}, 4544);
  model.layers = fields.layer_count({"num_hidden_layers", "n_layer"}, 32);
  set_heads(fields, model, head_count(fields, {"num_attention_heads", "n_head"}, 71, model.hidden));
  const bool new_decoder = fields.flag("new_decoder_architecture", false);
  if (new_decoder) {
    model.kv_heads = fields.count_or({"num_kv_heads", "n_head_kv"}, model.heads);
  } else if (fields.flag("multi_query", true)) {
    model.kv_heads = 1;
  }
  model.parallel_block = new_decoder || fields.flag("parallel_attn", true);
  model.norms_per_layer = new_decoder ? fields.count_or({"num_ln_in_parallel_attn"}, 2)
                                      : (model.parallel_block ? 1 : 2);
  model.ffn = fields.count_or({"ffn_hidden_size"}, 4 * model.hidden);
  model.vocab = fields.dimension({"vocab_size"}, 65024);
  model.position = fields.flag("alibi", false) ? Position::kAlibi : Position::kRotary;
  model.max_sequence = fields.count_or({"max_position_embeddings"}, 2048);
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = fields.flag("bias", false);
  model.tied_embeddings = fields.flag("tie_word_embeddings", true);
  return model;
}

Transformer read_opt(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"hidden_size"}, 768);
  model.layers = fields.layer_count({"num_hidden_layers"}, 12);
  set_heads(fields, model, head_count(fields, {"num_attention_heads"}, 12, model.hidden));
  model.ffn = fields.dimension({"ffn_dim"}, 3072);
  model.vocab = fields.dimension({"vocab_size"}, 50272);
  model.embedding_dim = fields.count_or({"word_embed_proj_dim"}, model.hidden);
  if (model.embedding_dim == model.hidden) {
    model.embedding_dim = 0;
  }
  model.position = Position::kLearned;
  model.max_sequence = fields.count_or({"max_position_embeddings"}, 2048);
  model.position_rows = model.max_sequence + 2;  // the table starts after two rows for padding
  model.final_norm =
      fields.flag("do_layer_norm_before", true) && !fields.flag("_remove_final_layer_norm", false);
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = fields.flag("enable_bias", true);
  model.tied_embeddings = fields.flag("tie_word_embeddings", true);
  return model;
}

Transformer read_bloom(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"hidden_size", "n_embed"}, 64);
  model.layers = fields.layer_count({"n_layer", "num_hidden_layers"}, 2);
  set_heads(fields, model, head_count(fields, {"n_head", "num_attention_heads"}, 8, model.hidden));
  model.ffn = 4 * model.hidden;
  model.vocab = fields.dimension({"vocab_size"}, 250880);
  model.position = Position::kAlibi;
  model.max_sequence = fields.count_or({"seq_length", "max_position_embeddings"}, 2048);
  model.embedding_norm = true;
  model.tied_embeddings = fields.flag("tie_word_embeddings", true);
  return model;
}

Transformer read_mpt(ConfigFields& fields) {
  Transformer model = gpt_build();
  model.hidden = fields.dimension({"d_model"}, 2048);
  model.layers = fields.layer_count({"n_layers"}, 24);
  set_heads(fields, model, head_count(fields, {"n_heads"}, 16, model.hidden));
  model.ffn = fields.count_or({"expansion_ratio"}, 4) * model.hidden;
  model.vocab = fields.dimension({"vocab_size"}, 50368);
  model.max_sequence = fields.count_or({"max_seq_len"}, 2048);
  bool alibi = false;
  if (fields.has({"attn_config"})) {
    ConfigFields attention = fields.object("attn_config");
    alibi = attention.flag("alibi", false);
    model.kv_heads = attention.text_or("attn_type", "multihead_attention") == "multiquery_attention"
                         ? 1
                         : attention.count_or({"kv_n_heads"}, model.heads);
  }
  const bool learned = !alibi && fields.flag("learned_pos_emb", true);
  model.position = alibi ? Position::kAlibi : learned ? Position::kLearned : Position::kNone;
  model.position_rows = learned ? model.max_sequence : 0;
  const bool biases = !fields.flag("no_bias", false);
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = model.norm_bias = biases;
  model.tied_embeddings = fields.flag("tie_word_embeddings", true);
  return model;
}

constexpr NamedReader kClassicFamilies[] = {
    {"gpt2", read_gpt2},         {"gpt_bigcode", read_gpt_bigcode},
    {"gptj", read_gptj},         {"codegen", read_gptj},
    {"gpt_neo", read_gpt_neo},   {"gpt_neox", read_gpt_neox},
    {"phi", read_phi},           {"falcon", read_falcon},
    {"RefinedWeb", read_falcon}, {"RefinedWebModel", read_falcon},
    {"opt", read_opt},           {"bloom", read_bloom},
    {"mpt", read_mpt},
};

}  // namespace

FamilyReader classic_family(const std::string& model_type) {
  return find_reader(kClassicFamilies, model_type);
}

}  // namespace trireme::models
