// Megatron-LM: a shell script or a file of arguments, and the model that they describe, with
// arguments.py's own defaults (validate_args).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "models/presets.h"
#include "planner/launch/function_spellings.h"
#include "planner/launch/known_models.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

// ---- the file

std::string key_of_word(std::string_view word) {
  std::string key(word.substr(2, word.find('=') - 2));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

bool is_megatron_flag(std::string_view word) {
  return word.starts_with("--") && word.find(' ') == std::string_view::npos &&
         reads_megatron_setting(key_of_word(word));
}

// A flag that takes a value and has none: an error, or a variable that the file does not set.
bool lost_by_a_variable(const LaunchSetting& setting, const ShellScript& script) {
  const auto& unset = script.variables.unset_words;
  return setting.open || std::any_of(unset.begin(), unset.end(), [&](const UnsetWord& word) {
           return word.after == setting.spelled;
         });
}

// Flags whose value is a variable that the file does not set keep Megatron's default.
void keep_flags(std::vector<LaunchSetting> settings, const ShellScript& script,
                LaunchConfig& config) {
  std::vector<std::string> empty;
  for (LaunchSetting& setting : settings) {
    const MegatronUse use = use_of_megatron_setting(setting.key);
    if (use == MegatronUse::kUnknown) {
      config.unknown.push_back(setting);
    } else if (setting.value.empty() && takes_value(setting.key)) {
      if (setting.line == 0) {
        throw Error(where_of(config, setting),
                    fmt::format("{} has no value; {} VALUE would be right", setting.spelled,
                                setting.spelled));
      }
      if (decides_memory_or_time(setting.key) && note_unset(script, setting, config)) {
        continue;
      }
      if (lost_by_a_variable(setting, script)) {
        empty.push_back(fmt::format("{} ({})", setting.spelled, line_of(config, setting.line)));
      } else {
        config.empty.push_back(setting);
      }
      continue;
    }
    config.settings.push_back(std::move(setting));
  }
  if (!empty.empty()) {
    config.remarks.push_back(fmt::format(
        "{} ha{} no value in the file: a variable that it does not set; taken at its default",
        fmt::join(empty, ", "), empty.size() == 1 ? "s" : "ve"));
  }
}

// ---- the model

using models::Transformer;

std::int64_t number(const LaunchConfig& config, std::string_view key, std::int64_t otherwise) {
  return integer_setting(config, key, 0, 100'000'000).value_or(otherwise);
}

// Transformer Engine's window (w, 0): the token itself and w before it. Every Nth layer, or those
// that the list marks 0, attend to all.
void read_window(const LaunchConfig& config, Transformer& model) {
  const std::string window = text_setting(config, "window_size");
  const std::size_t digits = window.find_first_of("0123456789");
  if (digits == std::string::npos || window.find('-') < digits) {
    return;
  }
  std::int64_t before = 0;
  std::from_chars(window.data() + digits, window.data() + window.size(), before);
  model.sliding_window = std::clamp<std::int64_t>(before, 0, 1'000'000'000 - 1) + 1;
  const LaunchSetting* pattern = find_setting(config, "window_attn_skip_freq");
  if (pattern == nullptr || !has_setting(config, "window_attn_skip_freq")) {
    return;
  }
  if (pattern->value.find('[') != std::string::npos) {
    model.sliding_layers = read_layer_pattern(config, *pattern, model.layers);
  } else if (const auto every = integer_setting(config, "window_attn_skip_freq", 1, 100'000)) {
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      model.sliding_layers.push_back((layer + 1) % *every != 0);
    }
  }
}

void read_attention(const LaunchConfig& config, Transformer& model) {
  const bool grouped =
      is_on(config, "group_query_attention") ||
      (has_setting(config, "num_query_groups") && !has_setting(config, "group_query_attention"));
  model.kv_heads = grouped ? number(config, "num_query_groups", 1) : model.heads;
  model.head_dim = number(config, "kv_channels", model.heads > 0 ? model.hidden / model.heads : 0);
  model.qk_norm = is_on(config, "qk_layernorm");
  model.attention_sinks = text_setting(config, "softmax_type") == "learnable";
  if (is_on(config, "multi_latent_attention")) {
    models::LatentAttention latent;
    latent.q_lora = number(config, "q_lora_rank", 0);
    latent.kv_lora = number(config, "kv_lora_rank", 32);
    latent.qk_nope = number(config, "qk_head_dim", 128);
    latent.qk_rope = number(config, "qk_pos_emb_head_dim", 64);
    latent.v_head = number(config, "v_head_dim", 128);
    model.latent = latent;
    model.kv_heads = model.heads;
    model.qk_norm = false;  // the norms of the latent projections, which every such model has
  }
  read_window(config, model);
}

void read_experts(const LaunchConfig& config, Transformer& model) {
  const std::int64_t experts = number(config, "num_experts", 0);
  if (experts <= 0) {
    return;
  }
  models::MixtureOfExperts moe;
  moe.experts = experts;
  moe.experts_per_token = number(config, "moe_router_topk", 2);
  moe.expert_ffn = number(config, "moe_ffn_hidden_size", model.ffn);
  moe.shared_ffn = number(config, "moe_shared_expert_intermediate_size", 0);
  moe.shared_gate = is_on(config, "moe_shared_expert_gate");
  // With biases everywhere the router has its own; else it is the one that balances.
  moe.router_bias = is_on(config, "moe_router_enable_expert_bias") || model.mlp_bias;
  moe.capacity_factor = number_setting(config, "moe_expert_capacity_factor").value_or(0);
  moe.expert_bias = model.mlp_bias;
  model.moe = moe;
  model.moe_layers.assign(
      static_cast<std::size_t>(std::clamp<std::int64_t>(model.layers, 0, 100'000)), true);
  if (has_setting(config, "moe_layer_freq")) {
    model.moe_layers =
        read_layer_pattern(config, *find_setting(config, "moe_layer_freq"), model.layers);
  }
}

void read_biases_and_norms(const LaunchConfig& config, Transformer& model) {
  const bool biases = !is_on(config, "disable_bias_linear");
  model.qkv_bias = biases || is_on(config, "add_qkv_bias");
  model.attention_output_bias = model.mlp_bias = biases;
  model.norm = text_setting(config, "normalization", "LayerNorm") == "RMSNorm"
                   ? models::Norm::kRmsNorm
                   : models::Norm::kLayerNorm;
  model.tied_embeddings = !is_on(config, "untie_embeddings_and_output_weights");
  model.embedding_norm = is_on(config, "embed_layernorm");
  const std::string position =
      is_on(config, "use_rotary_position_embeddings")
          ? "rope"
          : text_setting(config, "position_embedding_type", "learned_absolute");
  model.position = position == "rope" || position == "yarn" || position == "mrope"
                       ? models::Position::kRotary
                   : position == "alibi" ? models::Position::kAlibi
                   : position == "none"  ? models::Position::kNone
                                         : models::Position::kLearned;
  // A script whose caller gives the length (--seq) has neither.
  model.max_sequence =
      number(config, "max_position_embeddings", number(config, "seq_length", 4096));
  if (model.position == models::Position::kLearned) {
    model.position_rows = model.max_sequence;
  }
}

// The model of the same shape that the file's other words speak for: its rotary base, Llama 3.1's
// scaling of it, the tokenizer's name. Empty: no shape of a preset.
std::string preset_by_evidence(const LaunchConfig& config, const Transformer& model,
                               bool any_vocabulary) {
  const auto base = integer_setting(config, "rotary_base", 1, 1'000'000'000'000);
  const bool scaled = is_on(config, "use_rope_scaling");
  const bool third = text_setting(config, "tokenizer_type").starts_with("Llama3");
  std::string best;
  int most = -1;
  for (const std::string& preset : presets_of_shape(model, any_vocabulary)) {
    const models::Transformer other = models::load_model(preset);
    const bool newer = preset.starts_with("llama-3.");
    int score = base && other.function.rotary_base == static_cast<double>(*base) ? 2 : 0;
    score += scaled && newer ? 1 : 0;
    score += third && preset.starts_with("llama-3") ? 2 : 0;
    if (score > most) {
      most = score;
      best = preset;
    }
  }
  return best;
}

// Vocabularies that a tokenizer's name implies.
std::int64_t vocabulary_of(LaunchConfig& config, const Transformer& model) {
  for (const char* key : {"padded_vocab_size", "vocab_size"}) {
    if (const auto size = integer_setting(config, key)) {
      return *size;
    }
  }
  const std::string type = text_setting(config, "tokenizer_type");
  const std::string path = text_setting(config, "tokenizer_model");
  std::int64_t size = model.gated_mlp ? 32000 : 50257;  // Llama 2's and GPT-2's
  if (const std::string preset = models::preset_in(path); !preset.empty()) {
    size = models::load_model(preset).vocab;
  } else if (type.starts_with("GPT2")) {
    size = 50257;
  } else if (type.starts_with("Llama2")) {
    size = 32000;
  } else if (type.starts_with("Llama3")) {
    size = 128256;
  } else if (const std::string same = preset_by_evidence(config, model, true); !same.empty()) {
    size = models::load_model(same).vocab;
  } else if (const std::string named =
                 models::preset_in(std::filesystem::path(config.source).stem().string());
             type.starts_with("HuggingFace") && !named.empty()) {
    size = models::load_model(named).vocab;  // train_deepseek_v3.sh
  }
  config.remarks.push_back(
      fmt::format("the size of the vocabulary is not in the file; {} assumed{}", size,
                  type.empty() ? "" : " for tokenizer " + type));
  return size;
}

}  // namespace

void read_megatron_model(LaunchConfig& config) {
  if (!has_setting(config, "num_layers") || !has_setting(config, "hidden_size")) {
    return;
  }
  for (const char* key : {"hybrid_override_pattern", "hybrid_layer_pattern", "is_hybrid_model"}) {
    if (has_setting(config, key)) {
      const LaunchSetting& setting = *find_setting(config, key);
      throw Error(where_of(config, setting),
                  fmt::format("{}: models with Mamba layers are not described by this program; a "
                              "transformer would be right",
                              setting.spelled));
    }
  }
  Transformer model;
  model.layers = *integer_setting(config, "num_layers", 1, 100'000);
  model.hidden = *integer_setting(config, "hidden_size", 1, 100'000'000);
  model.heads = number(config, "num_attention_heads", 0);
  if (model.heads == 0) {
    throw Error(
        config.source,
        "num_attention_heads is missing; the model's number of attention heads would be right");
  }
  model.gated_mlp = is_on(config, "swiglu") || is_on(config, "quick_geglu");
  // validate_args: two thirds of 4 h in multiples of 64 under SwiGLU
  model.ffn = number(config, "ffn_hidden_size",
                     model.gated_mlp ? 4 * model.hidden * 2 / 3 / 64 * 64 : 4 * model.hidden);
  read_biases_and_norms(config, model);
  read_attention(config, model);
  read_experts(config, model);
  if (model.moe &&
      std::all_of(model.moe_layers.begin(), model.moe_layers.end(), [](bool moe) { return moe; })) {
    model.ffn = 0;             // no layer is dense
    model.mlp_bias = false;    // those of the experts are expert_bias
    model.moe_layers.clear();  // all of them
  }
  model.multi_token_layers = number(config, "mtp_num_layers", 0);
  read_megatron_function(config, model);
  model.name = std::filesystem::path(config.source).stem().string();
  model.vocab = vocabulary_of(config, model);
  models::check_transformer(model, config.source);
  if (const std::string same = preset_by_evidence(config, model, false); !same.empty()) {
    model.name = same;
  }
  config.model = model;
}

LaunchConfig read_megatron(std::string_view text, const std::string& source,
                           const std::vector<std::string>& arguments,
                           const LaunchReading& reading) {
  LaunchConfig config;
  config.format = LaunchFormat::kMegatron;
  config.source = source;
  std::vector<std::string> flags = arguments;
  const std::vector<std::string> words = take_script_words(text, flags);
  const ShellScript script = read_launch_script(text, source, words, reading, config);
  const LaunchCommand command = training_command(script, is_megatron_flag, config);
  if (command.arguments.empty()) {
    throw Error(
        source,
        "no command with Megatron-LM's arguments (--num-layers, "
        "--tensor-model-parallel-size, …) is in it; a script that starts pretrain_gpt.py, or "
        "its arguments, would be right");
  }
  read_command_environment(command.launcher, config);
  remark_missing_arguments(script, is_switch, config);
  read_gpu_count(command.launcher, config);
  keep_flags(flags_of(command.arguments), script, config);
  keep_flags(flags_of(words_of(flags)), script, config);
  read_megatron_program(command, config);
  read_megatron_model(config);
  read_megatron_layout(config);
  return config;
}

}  // namespace trireme::planner
