// Import of a Hugging Face config.json: finds the part that describes the text model, its family,
// and refuses what the description cannot hold.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/config_checks.h"
#include "models/families.h"
#include "models/presets.h"

namespace trireme::models {
namespace {

// Models that see or hear keep their text model's fields in an object of their own.
constexpr std::array<const char*, 3> kTextParts = {"text_config", "llm_config", "language_config"};

// Keys of builds that are not a plain decoder of attention and MLP layers, and what they say:
// reading such a file as a llama would give a wrong count in silence. What no description can hold
// stands first, so that it is what a refusal names.
struct ForeignKey {
  const char* key;
  const char* what;
};
constexpr std::array<ForeignKey, 39> kForeignKeys = {{
    {"mup_enabled", "gates on what its attention gives"},
    {"attention_output_gate", "gates on what its attention gives"},
    {"ssm_cfg", "state-space layers (Mamba)"},
    {"state_size", "state-space layers (Mamba)"},
    {"mamba_d_state", "state-space layers (Mamba)"},
    {"ssm_state_size", "state-space layers (Mamba)"},
    {"mamba_num_heads", "state-space layers (Mamba)"},
    {"hybrid_override_pattern", "state-space layers (Mamba) among its attention layers"},
    {"attn_layer_period", "state-space layers (Mamba) among its attention layers"},
    {"layers_block_type", "layers of several kinds, state-space ones among them"},
    {"linear_num_key_heads", "layers of linear attention (gated delta rule)"},
    {"linear_attn_config", "layers of linear attention"},
    {"attn_type_list", "layers of linear attention (lightning)"},
    {"conv_L_cache", "convolution layers among its attention layers"},
    {"time_mix_extra_dim", "recurrent layers (RWKV)"},
    {"lru_width", "recurrent layers"},
    {"index_topk", "sparse attention (an indexer chooses the tokens)"},
    {"compress_ratios", "sparse attention over compressed tokens"},
    {"hidden_size_per_layer_input", "an embedding for every layer"},
    {"global_head_dim", "heads of another width in its global layers"},
    {"num_global_key_value_heads", "other key-value heads in its global layers"},
    {"swa_num_attention_heads", "other heads in its sliding layers"},
    {"swa_head_dim", "heads of another width in its sliding layers"},
    {"attention_other_setting", "other heads in some of its layers"},
    {"share_q_dim", "queries factored over a shared width"},
    {"zero_expert_num", "experts that compute nothing"},
    {"block_configs", "layers of different shapes"},
    {"num_key_value_heads_per_layer", "layers of different shapes"},
    {"cross_attention_layers", "layers that attend to another input"},
    {"num_decoder_layers", "an encoder"},
    {"d_kv", "an encoder"},
    {"type_vocab_size", "an encoder"},
    {"global_attn_every_n_layers", "an encoder"},
    {"kv_lora_rank", "latent attention of unknown build"},
    {"n_routed_experts", "experts of unknown build"},
    {"num_experts", "experts of unknown build"},
    {"num_local_experts", "experts of unknown build"},
    {"moe_intermediate_size", "experts of unknown build"},
    {"moe_num_experts", "experts of unknown build"},
}};
constexpr std::size_t kDescribable = 6;  // the last ones: a model file can say them

// Activations of a gated MLP; with another one the MLP has two matrices, not three.
constexpr std::array<const char*, 6> kGatedActivations = {
    "silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "swiglu"};

const char* text_part(const nlohmann::json& config) {
  for (const char* part : kTextParts) {
    const auto found = config.find(part);
    if (found != config.end() && found->is_object()) {
      return part;
    }
  }
  return nullptr;
}

}  // namespace

FamilyReader find_reader(std::span<const NamedReader> families, const std::string& model_type) {
  const auto found = std::find_if(families.begin(), families.end(), [&](const NamedReader& each) {
    return model_type == each.model_type;
  });
  return found == families.end() ? nullptr : found->read;
}

namespace {

FamilyReader family_of(const std::string& model_type) {
  for (const auto find :
       {dense_family, gemma_family, expert_family, deepseek_family, classic_family}) {
    if (const FamilyReader reader = find(model_type); reader != nullptr) {
      return reader;
    }
  }
  return nullptr;
}

bool has_every_llama_field(const ConfigFields& fields) {
  for (const char* name : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                           "intermediate_size", "vocab_size"}) {
    if (!fields.has({name})) {
      return false;
    }
  }
  return true;
}

// num_local_experts: 0, attention_output_gate: false, moe_layers: [] say that there is none.
bool says_something(const ConfigFields& fields, const char* key) {
  if (!fields.has({key})) {
    return false;
  }
  const nlohmann::json& value = fields.json().at(key);
  const bool empty = (value.is_array() || value.is_string()) && value.empty();
  const bool nothing =
      (value.is_number() && value.get<double>() == 0) || (value.is_boolean() && !value.get<bool>());
  return !empty && !nothing;
}

void refuse_foreign_builds(ConfigFields& fields, const std::string& model_type, bool known_family) {
  if (known_family) {
    return;
  }
  for (const ForeignKey& foreign : kForeignKeys) {
    if (says_something(fields, foreign.key)) {
      const bool describable = &foreign - kForeignKeys.data() >=
                               static_cast<std::ptrdiff_t>(kForeignKeys.size() - kDescribable);
      fields.fail("model_type",
                  fmt::format("is \"{}\", which is not known, and {} says that it has {}{}",
                              model_type, foreign.key, foreign.what,
                              describable ? "; describe it in a model file of trireme"
                                          : ", which no model description here can hold"));
    }
  }
  const std::string activation = fields.text_or("hidden_act", "silu");
  if (std::find(kGatedActivations.begin(), kGatedActivations.end(), activation) ==
      kGatedActivations.end()) {
    fields.fail("hidden_act", fmt::format("is \"{}\" in a model of the unknown type \"{}\", whose "
                                          "MLP then is no llama's; describe it in a model file of "
                                          "trireme",
                                          activation, model_type));
  }
}

// Old files name only the class, such as LlamaForCausalLM.
std::string type_from_architecture(ConfigFields& fields) {
  static constexpr std::array<std::pair<const char*, const char*>, 14> kClasses = {{
      {"LlamaForCausalLM", "llama"},
      {"LLaMAForCausalLM", "llama"},
      {"MistralForCausalLM", "mistral"},
      {"MixtralForCausalLM", "mixtral"},
      {"Qwen2ForCausalLM", "qwen2"},
      {"Qwen3ForCausalLM", "qwen3"},
      {"Qwen3MoeForCausalLM", "qwen3_moe"},
      {"GPT2LMHeadModel", "gpt2"},
      {"GPTNeoXForCausalLM", "gpt_neox"},
      {"OPTForCausalLM", "opt"},
      {"BloomForCausalLM", "bloom"},
      {"FalconForCausalLM", "falcon"},
      {"DeepseekV3ForCausalLM", "deepseek_v3"},
      {"GptOssForCausalLM", "gpt_oss"},
  }};
  const std::vector<std::string> architectures = fields.texts("architectures");
  for (const auto& [name, type] : kClasses) {
    if (!architectures.empty() && architectures.front() == name) {
      return type;
    }
  }
  return "";
}

Transformer import_text_model(ConfigFields& fields) {
  std::string model_type = fields.text_or("model_type", "");
  if (model_type.empty()) {
    model_type = type_from_architecture(fields);
  }
  FamilyReader reader = family_of(model_type);
  refuse_foreign_builds(fields, model_type, reader != nullptr);
  if (fields.flag("is_encoder_decoder", false)) {
    fields.fail("is_encoder_decoder", "is true; only decoder models can be planned for");
  }
  if (reader == nullptr) {
    if (!has_every_llama_field(fields)) {
      fields.fail(
          "model_type",
          model_type.empty()
              ? std::string("is missing, and the fields of a llama are not all there; give a "
                            "config.json of a known family")
              : fmt::format("is \"{}\", which is not known, and the fields of a llama are "
                            "not all there; describe it in a model file of trireme",
                            model_type));
    }
    reader = read_llama;
  }
  Transformer model = reader(fields);
  read_family_function(fields, model_type, model);
  return model;
}

// The folder's name when the file is called config.json, else the file's own.
std::string name_from_path(const std::string& where) {
  std::string path = where;
  for (const std::string_view ending : {"/config.json", ".json"}) {
    if (path.ends_with(ending)) {
      path.resize(path.size() - ending.size());
      break;
    }
  }
  const auto slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

Transformer import_hugging_face(const nlohmann::json& config, const std::string& where) {
  if (!config.is_object()) {
    throw Error(where, "holds no JSON object; a Hugging Face config.json is expected");
  }
  Transformer model;
  const char* part = text_part(config);
  if (part == nullptr) {
    ConfigFields fields(config, where, /*nested=*/false);
    model = import_text_model(fields);
    model.name = name_from_path(where);
    check_config(fields, model);
    check_imported(fields, model, where);
  } else {
    nlohmann::json text = config.at(part);
    // A tie stated for the whole model holds for its text part; so does a type only stated there.
    for (const char* inherited : {"tie_word_embeddings", "model_type"}) {
      if (!text.contains(inherited) && config.contains(inherited)) {
        text[inherited] = config.at(inherited);
      }
    }
    ConfigFields fields(text, fmt::format("{}#/{}", where, part), /*nested=*/true);
    model = import_text_model(fields);
    model.name = name_from_path(where);
    check_config(fields, model);
    check_imported(fields, model, where);
  }
  return model;
}

}  // namespace trireme::models
