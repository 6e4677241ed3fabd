#include "models/model_file.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/json_reader.h"
#include "models/config_fields.h"
#include "models/function_table.h"

namespace trireme::models {
namespace {

constexpr std::array<std::pair<const char*, Norm>, 2> kNorms = {
    {{"layer_norm", Norm::kLayerNorm}, {"rms_norm", Norm::kRmsNorm}}};
constexpr std::array<std::pair<const char*, Position>, 4> kPositions = {
    {{"rotary", Position::kRotary},
     {"learned", Position::kLearned},
     {"alibi", Position::kAlibi},
     {"none", Position::kNone}}};

template <typename Table>
auto one_of(JsonReader& reader, const char* key, const Table& table) {
  const std::string text = reader.text(key);
  std::string known;
  for (const auto& [name, value] : table) {
    if (text == name) {
      return value;
    }
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  reader.fail(key, fmt::format("is \"{}\"; it must be one of {}", text, known));
}

template <typename Table, typename Value>
const char* name_in(const Table& table, Value value) {
  for (const auto& [name, each] : table) {
    if (each == value) {
      return name;
    }
  }
  return "";
}

// The fields that are a count or a switch of their own name, with the ones a file must state apart.
struct CountField {
  const char* key;
  std::int64_t Transformer::*member;
};
constexpr std::array<CountField, 5> kRequiredCounts = {{
    {"layers", &Transformer::layers},
    {"hidden", &Transformer::hidden},
    {"heads", &Transformer::heads},
    {"vocab", &Transformer::vocab},
    {"max_sequence", &Transformer::max_sequence},
}};
constexpr std::array<CountField, 4> kOptionalCounts = {{
    {"embedding_dim", &Transformer::embedding_dim},
    {"norms_per_layer", &Transformer::norms_per_layer},
    {"sliding_window", &Transformer::sliding_window},
    {"multi_token_layers", &Transformer::multi_token_layers},
}};
struct Switch {
  const char* key;
  bool Transformer::*member;
};
constexpr std::array<Switch, 13> kSwitches = {{
    {"gated_mlp", &Transformer::gated_mlp},
    {"qkv_bias", &Transformer::qkv_bias},
    {"attention_output_bias", &Transformer::attention_output_bias},
    {"mlp_bias", &Transformer::mlp_bias},
    {"norm_bias", &Transformer::norm_bias},
    {"head_bias", &Transformer::head_bias},
    {"qk_norm", &Transformer::qk_norm},
    {"qk_norm_all_heads", &Transformer::qk_norm_all_heads},
    {"tied_embeddings", &Transformer::tied_embeddings},
    {"attention_sinks", &Transformer::attention_sinks},
    {"embedding_norm", &Transformer::embedding_norm},
    {"final_norm", &Transformer::final_norm},
    {"parallel_block", &Transformer::parallel_block},
}};

// A list of layer numbers, as flags.
std::vector<bool> read_layers(JsonReader& reader, const char* key, std::int64_t layers) {
  std::vector<bool> flags(static_cast<std::size_t>(layers), false);
  const nlohmann::json& list = reader.raw(key);
  if (!list.is_array()) {
    reader.fail(key, "must be a list of layer numbers");
  }
  for (const nlohmann::json& value : list) {
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() >= static_cast<std::uint64_t>(layers)) {
      reader.fail(key, fmt::format("must list layer numbers from 0 to {}", layers - 1));
    }
    flags[value.get<std::size_t>()] = true;
  }
  return flags;
}

std::vector<std::int64_t> layers_that_are(const std::vector<bool>& flags, bool wanted) {
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == wanted) {
      layers.push_back(static_cast<std::int64_t>(i));
    }
  }
  return layers;
}

LatentAttention read_latent(JsonReader reader) {
  LatentAttention latent;
  latent.q_lora = reader.integer("q_lora", 0, kCountMax);
  latent.kv_lora = reader.integer("kv_lora", 1, kCountMax);
  latent.qk_nope = reader.integer("qk_nope", 0, kCountMax);
  latent.qk_rope = reader.integer("qk_rope", 0, kCountMax);
  latent.v_head = reader.integer("v_head", 1, kCountMax);
  reader.finish();
  return latent;
}

MixtureOfExperts read_experts(JsonReader reader) {
  MixtureOfExperts moe;
  moe.experts = reader.integer("experts", 1, kCountMax);
  moe.experts_per_token = reader.integer("experts_per_token", 1, kCountMax);
  moe.expert_ffn = reader.integer("expert_ffn", 1, kCountMax);
  const auto flag = [&reader](const char* key) { return reader.has(key) && reader.boolean(key); };
  moe.shared_ffn = reader.has("shared_ffn") ? reader.integer("shared_ffn", 0, kCountMax) : 0;
  moe.shared_gate = flag("shared_gate");
  moe.router_bias = flag("router_bias");
  moe.expert_bias = flag("expert_bias");
  moe.capacity_factor =
      reader.has("capacity_factor") ? reader.number("capacity_factor", 0.0, 1e6) : 0.0;
  reader.finish();
  return moe;
}

void read_heads(JsonReader& reader, Transformer& model) {
  model.kv_heads = reader.has("kv_heads") ? reader.integer("kv_heads", 1, kCountMax) : model.heads;
  if (model.latent) {
    model.head_dim = model.latent->qk_nope + model.latent->qk_rope;
  } else if (reader.has("head_dim")) {
    model.head_dim = reader.integer("head_dim", 1, kCountMax);
  } else if (model.hidden % model.heads == 0) {
    model.head_dim = model.hidden / model.heads;
  } else {
    reader.fail("heads", fmt::format("is {}, which does not divide hidden {}; give head_dim, or a "
                                     "number of heads that divides it",
                                     model.heads, model.hidden));
  }
}

}  // namespace

Transformer read_model_file(const nlohmann::json& json, const std::string& where) {
  JsonReader reader(json, where);
  if (const std::string schema = reader.text("schema"); schema != kModelSchema) {
    reader.fail("schema", fmt::format("is \"{}\"; \"{}\" is expected", schema, kModelSchema));
  }
  reader.ignore("source");
  Transformer model;
  model.name = reader.text("name");
  for (const CountField& field : kRequiredCounts) {
    model.*field.member = reader.integer(field.key, 1, kCountMax);
  }
  if (model.layers > kLayersMax) {
    reader.fail("layers", fmt::format("is {}; it must be at most {}", model.layers, kLayersMax));
  }
  for (const CountField& field : kOptionalCounts) {
    if (reader.has(field.key)) {
      model.*field.member = reader.integer(field.key, 0, kCountMax);
    }
  }
  for (const Switch& field : kSwitches) {
    if (reader.has(field.key)) {
      model.*field.member = reader.boolean(field.key);
    }
  }
  model.norm = one_of(reader, "norm", kNorms);
  model.position = one_of(reader, "position", kPositions);
  const std::int64_t rows = model.position == Position::kLearned ? model.max_sequence : 0;
  model.position_rows =
      reader.has("position_rows") ? reader.integer("position_rows", 0, kCountMax) : rows;
  if (reader.has("latent")) {
    model.latent = read_latent(reader.object("latent"));
  }
  read_heads(reader, model);
  if (reader.has("moe")) {
    model.moe = read_experts(reader.object("moe"));
  }
  model.ffn = reader.has("ffn") || !model.moe ? reader.integer("ffn", 0, kCountMax) : 0;
  if (reader.has("dense_layers")) {
    model.moe_layers = read_layers(reader, "dense_layers", model.layers);
    model.moe_layers.flip();
  }
  if (reader.has("full_attention_layers")) {
    model.sliding_layers = read_layers(reader, "full_attention_layers", model.layers);
    model.sliding_layers.flip();
  }
  // An MLP of two matrices has GPT's activation where the file is silent.
  model.function.activation = model.gated_mlp ? "silu" : "gelu_tanh";
  if (reader.has("function")) {
    const std::string plain = model.function.activation;
    const bool says =
        reader.raw("function").is_object() && reader.raw("function").contains("activation");
    model.function = read_function(reader.object("function"));
    model.function.activation = says ? model.function.activation : plain;
  }
  settle_function(model);
  reader.finish();
  check_transformer(model, where);
  return model;
}

nlohmann::ordered_json write_model_file(const Transformer& model) {
  const Transformer defaults;
  nlohmann::ordered_json json;
  json["schema"] = kModelSchema;
  json["name"] = model.name;
  for (const CountField& field : kRequiredCounts) {
    json[field.key] = model.*field.member;
  }
  json["kv_heads"] = model.kv_heads;
  if (!model.latent) {
    json["head_dim"] = model.head_dim;
  }
  json["ffn"] = model.ffn;
  json["norm"] = name_in(kNorms, model.norm);
  json["position"] = name_in(kPositions, model.position);
  json["position_rows"] = model.position_rows;
  for (const CountField& field : kOptionalCounts) {
    if (model.*field.member != defaults.*field.member) {
      json[field.key] = model.*field.member;
    }
  }
  for (const Switch& field : kSwitches) {
    if (model.*field.member != defaults.*field.member) {
      json[field.key] = model.*field.member;
    }
  }
  if (model.latent) {
    json["latent"] = {{"q_lora", model.latent->q_lora},
                      {"kv_lora", model.latent->kv_lora},
                      {"qk_nope", model.latent->qk_nope},
                      {"qk_rope", model.latent->qk_rope},
                      {"v_head", model.latent->v_head}};
  }
  if (model.moe) {
    json["moe"] = {{"experts", model.moe->experts},
                   {"experts_per_token", model.moe->experts_per_token},
                   {"expert_ffn", model.moe->expert_ffn},
                   {"shared_ffn", model.moe->shared_ffn},
                   {"shared_gate", model.moe->shared_gate},
                   {"router_bias", model.moe->router_bias},
                   {"expert_bias", model.moe->expert_bias},
                   {"capacity_factor", model.moe->capacity_factor}};
  }
  if (!model.moe_layers.empty()) {
    json["dense_layers"] = layers_that_are(model.moe_layers, false);
  }
  if (!model.sliding_layers.empty()) {
    json["full_attention_layers"] = layers_that_are(model.sliding_layers, false);
  }
  nlohmann::ordered_json function = write_function(model.function);
  if (!model.gated_mlp) {
    function["activation"] = model.function.activation;
  }
  if (!function.empty()) {
    json["function"] = std::move(function);
  }
  return json;
}

}  // namespace trireme::models
