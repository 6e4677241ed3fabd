#include "models/config_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "models/function_table.h"

namespace trireme::models {
namespace {

// Factors of which 0 leaves nothing of what they multiply, or divides by it.
constexpr const char* kFactors[] = {"embedding_multiplier",    "scale_emb",
                                    "residual_multiplier",     "attention_multiplier",
                                    "logits_scaling",          "logit_scale",
                                    "routed_scaling_factor",   "query_pre_attn_scalar",
                                    "final_logit_softcapping", "attn_logit_softcapping"};

void check_factors(const ConfigFields& fields) {
  for (const char* key : kFactors) {
    const auto found = fields.json().find(key);
    if (found == fields.json().end()) {
      continue;
    }
    if (found->is_string()) {  // a word of Python's, Infinity or NaN
      fields.fail(key, fmt::format("is {}; a number would be right", found->get<std::string>()));
    }
    if (found->is_number() && found->get<double>() == 0) {
      fields.fail(key,
                  "is 0, which leaves nothing of what it scales; another number, or no such "
                  "key, would be right");
    }
  }
}

// The rotation turns pairs of numbers.
void check_rotary(const ConfigFields& fields, const Transformer& model) {
  if (model.position != Position::kRotary) {
    return;
  }
  const double share = model.function.rotary_share;
  const auto width = model.latent ? model.latent->qk_rope
                                  : static_cast<std::int64_t>(std::floor(
                                        static_cast<double>(model.head_dim) * share + 1e-9));
  if (width % 2 == 0) {
    return;
  }
  const char* key = model.latent ? "qk_rope_head_dim" : "head_dim";
  for (const char* part : {"partial_rotary_factor", "rotary_pct", "rope_pct"}) {
    key = !model.latent && share < 1 && fields.has({part}) ? part : key;
  }
  fields.fail(
      key, fmt::format("gives {} rotated numbers of a head; an even number would be right", width));
}

void check_layers(const ConfigFields& fields, const Transformer& model) {
  const nlohmann::json& json = fields.json();
  if (const auto dense = json.find("mlp_only_layers"); dense != json.end() && dense->is_array()) {
    for (const nlohmann::json& layer : *dense) {
      if (layer.is_number_integer() && layer.get<std::int64_t>() >= model.layers) {
        fields.fail("mlp_only_layers",
                    fmt::format("names layer {} of {}; 0 to {} would be right",
                                layer.get<std::int64_t>(), model.layers, model.layers - 1));
      }
    }
  }
  if (const auto first = json.find("first_k_dense_replace");
      first != json.end() && first->is_number_integer() &&
      first->get<std::int64_t>() > model.layers) {
    fields.fail("first_k_dense_replace",
                fmt::format("is {} of {} layers; at most {} would be right",
                            first->get<std::int64_t>(), model.layers, model.layers));
  }
}

void check_routing(const ConfigFields& fields) {
  const nlohmann::json& json = fields.json();
  for (const char* key : {"n_group", "topk_group"}) {
    const auto found = json.find(key);
    if (found != json.end() && found->is_number_integer() && found->get<std::int64_t>() < 1) {
      fields.fail(key, fmt::format("is {}; 1 or more would be right", found->dump()));
    }
  }
  if (const auto score = json.find("scoring_func"); score != json.end() && score->is_string()) {
    const auto word = score->get<std::string>();
    if (word != "softmax" && word != "sigmoid" && word != "sqrtsoftplus") {
      fields.fail("scoring_func",
                  fmt::format("is \"{}\"; softmax or sigmoid would be right", word));
    }
  }
}

// Names of a transformer's own dimensions in the files.
struct Spelling {
  std::string_view own;
  std::array<const char*, 5> keys;
};
constexpr Spelling kSpellings[] = {
    {"layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    {"hidden", {"hidden_size", "n_embd", "d_model"}},
    {"heads", {"num_attention_heads", "n_head", "n_heads"}},
    {"kv_heads", {"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"}},
    {"head_dim", {"head_dim"}},
    {"experts", {"n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"}},
    {"experts_per_token", {"num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk"}},
    {"expert_ffn", {"moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size"}},
    {"ffn", {"intermediate_size", "ffn_dim", "n_inner"}},
    {"vocab", {"vocab_size"}},
    {"max_sequence", {"max_position_embeddings", "n_positions", "max_seq_len"}},
    {"sliding_window", {"sliding_window"}},
    {"multi_token_layers", {"num_nextn_predict_layers"}},
    {"q_lora", {"q_lora_rank"}},
    {"kv_lora", {"kv_lora_rank"}},
    {"qk_nope", {"qk_nope_head_dim"}},
    {"qk_rope", {"qk_rope_head_dim"}},
    {"v_head", {"v_head_dim"}},
};

bool has_path(const nlohmann::json& json, std::string_view path) {
  const std::size_t dot = path.find('.');
  const auto found = json.is_object() ? json.find(std::string(path.substr(0, dot))) : json.end();
  if (!json.is_object() || found == json.end() || found->is_null()) {
    return false;
  }
  return dot == std::string_view::npos || has_path(*found, path.substr(dot + 1));
}

template <typename Keys>
std::string present(const nlohmann::json& json, const Keys& keys) {
  for (const char* key : keys) {
    if (key != nullptr && has_path(json, key)) {
      return key;
    }
  }
  return "";
}

// The file's key of one of our names; empty: it has none.
std::string file_key(const nlohmann::json& json, std::string_view own) {
  for (const Spelling& spelling : kSpellings) {
    if (spelling.own == own) {
      return present(json, spelling.keys);
    }
  }
  for (const FunctionField& field : function_fields()) {
    if (field.key == own) {
      return present(json, field.config_keys);
    }
  }
  return "";
}

}  // namespace

void check_config(const ConfigFields& fields, const Transformer& model) {
  check_factors(fields);
  check_rotary(fields, model);
  check_layers(fields, model);
  check_routing(fields);
}

void check_imported(const ConfigFields& fields, const Transformer& model,
                    const std::string& where) {
  try {
    check_transformer(model, where);
  } catch (const Error& error) {
    const std::string_view told = error.what();
    const std::size_t begin = where.size() + 2;  // "WHERE: NAME …"
    const std::string_view said = told.substr(std::min(begin, told.size()));
    const std::string_view own = said.substr(0, said.find(' '));
    const std::string key = file_key(fields.json(), own);
    if (key.empty()) {
      throw;
    }
    throw Error(fmt::format("{}#/{}", fields.where().substr(0, fields.where().find('#')), key),
                std::string(said.substr(std::min(own.size() + 1, said.size()))));
  }
}

}  // namespace trireme::models
