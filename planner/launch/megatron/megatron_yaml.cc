// YAML around Megatron: NeMo 1's (trainer, model: examples/nlp/language_modeling/conf, and
// conf/training of its launcher) and Megatron-Bridge's overrides (model, train, ddp, …).
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/trainers/trainer.h"
#include "planner/launch/yaml_kinds.h"

namespace trireme::planner {

bool has_line(std::string_view text, std::string_view key, bool indent) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const std::string_view before = text.substr(line, at - line);
    const bool blank = before.find_first_not_of(' ') == std::string_view::npos;
    if (blank && before.empty() != indent && text.substr(at + key.size()).starts_with(":")) {
      return true;
    }
  }
  return false;
}

namespace {

bool has_any_line(std::string_view text, std::string_view keys, bool indent) {
  const std::vector<std::string_view> names = names_in(keys);
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view key) { return has_line(text, key, indent); });
}

bool is_none(std::string_view value) {
  return is_among("null None ~", value) || value.empty() || value == "???";
}

struct Renamed {
  std::string_view nemo, bridge;
};
// Switches and numbers that NeMo 1 calls otherwise.
constexpr Renamed kNames[] = {
    {"model.encoder_seq_length", "model.seq_length"},
    {"model.bias", "model.add_bias_linear"},
    {"model.ub_tp_comm_overlap", "comm_overlap.tp_comm_overlap"},
    {"model.optim.overlap_grad_sync", "ddp.overlap_grad_reduce"},
    {"model.optim.overlap_param_sync", "ddp.overlap_param_gather"},
};

// What a value of NeMo 1 says under the names of Megatron-Bridge; empty: nothing of its own.
LaunchSetting translated(const LaunchSetting& from, const std::string& value) {
  LaunchSetting to = from;
  to.value = value;
  const auto say = [&](std::string_view key, std::string_view said) {
    to.key = key;
    to.value = said;
    return to;
  };
  for (const auto& [nemo, bridge] : kNames) {
    if (from.key == nemo) {
      return say(bridge, value);
    }
  }
  if (from.key == "model.activation") {
    return say("model.gated_linear_unit", value.ends_with("glu") ? "True" : "False");
  }
  if (from.key == "model.normalization") {
    return say("model.normalization", in_capitals(value) == "RMSNORM" ? "RMSNorm" : "LayerNorm");
  }
  if (from.key == "model.optim.name") {
    const bool shards = value.find("distributed") != std::string::npos;
    return say("ddp.use_distributed_optimizer", shards ? "True" : "False");
  }
  if (from.key == "model.optim.grad_sync_dtype") {
    return say("ddp.grad_reduce_in_fp32", value.find("16") == std::string::npos ? "True" : "False");
  }
  if (from.key == "trainer.precision") {
    return value.starts_with("16")   ? say("model.fp16", "True")
           : value.starts_with("32") ? say("mixed_precision", "None")
                                     : say("", "");
  }
  if (from.key == "model.tokenizer.type" || from.key == "model.tokenizer.model") {
    return value.starts_with("GPT2") ? say("tokenizer.tokenizer_type", value)
                                     : say("tokenizer.tokenizer_model", value);
  }
  if (from.key == "model.fp8" || from.key == "model.fp8_hybrid") {
    return is_among("True true", value) ? say("model.fp8", "hybrid") : say("", "");
  }
  const bool of_model = from.key.starts_with("model.") && from.key.rfind('.') == 5;
  const bool known = of_model && (reads_megatron_setting(from.key.substr(6)) ||
                                  renamed_by_bridge(from.key) != nullptr);
  return known && from.key != "model.fp8_e4m3" ? to : say("", "");
}

// Recompute's method and number count beside a granularity alone (or, before NeMo 1.12, without
// one where the number is above 0).
bool is_idle_recompute(const LaunchConfig& yaml, const LaunchSetting& setting) {
  if (!setting.key.starts_with("model.activations_checkpoint_")) {
    return false;
  }
  const LaunchSetting* granularity = find_setting(yaml, "model.activations_checkpoint_granularity");
  const LaunchSetting* layers = find_setting(yaml, "model.activations_checkpoint_num_layers");
  const bool some = layers != nullptr && !is_none(layers->value) && layers->value != "0";
  return granularity != nullptr ? is_none(granularity->value) || (&setting == layers && !some)
                                : !some;
}

void read_gpus(const LaunchConfig& yaml, LaunchConfig& config) {
  const auto count = [&](const char* key) -> std::int64_t {
    const LaunchSetting* found = find_setting(yaml, key);
    const bool number = found != nullptr && !found->value.empty() && found->value.size() < 7 &&
                        found->value.find_first_not_of("0123456789") == std::string::npos;
    return number ? std::stoll(found->value) : 0;
  };
  const std::int64_t each = count("trainer.devices");
  const std::int64_t nodes = count("trainer.num_nodes");
  if (each > 0 && nodes > 0) {
    config.gpus = each * nodes;
    config.gpus_per_node = each;
  }
}

void refuse_other_models(const LaunchConfig& yaml) {
  for (const LaunchSetting& setting : yaml.settings) {
    if (setting.key.starts_with("model.encoder.") || setting.key.starts_with("model.decoder.") ||
        setting.key.starts_with("inference.")) {
      const bool both = setting.key.starts_with("model.");
      throw Error(where_of(yaml, setting),
                  fmt::format("{}, which this program does not describe; a decoder-only "
                              "transformer's training would be right",
                              both ? "it trains an encoder and a decoder" : "it generates text"));
    }
  }
}

}  // namespace

bool is_megatron_yaml(std::string_view text) {
  const bool nested = has_line(text, "model", false) && has_any_line(text, kMegatronDegrees, true);
  return nested && !has_any_line(text, "base_model actor_rollout_ref modules rollout", false);
}

bool has_nemo_trainer(std::string_view text) {
  return is_megatron_yaml(text) && has_line(text, "trainer", false);
}

std::vector<LaunchSetting> megatron_yaml_settings(std::string_view text, LaunchConfig& config) {
  LaunchConfig yaml;
  yaml.source = config.source;
  read_yaml_settings(text, yaml);
  const bool nemo = has_line(text, "trainer", false);
  if (!nemo) {
    return yaml.settings;  // Megatron-Bridge's own paths
  }
  refuse_other_models(yaml);
  settle_references(yaml);
  read_gpus(yaml, config);
  std::vector<LaunchSetting> settings;
  for (const LaunchSetting& setting : yaml.settings) {
    if (is_none(setting.value) || is_idle_recompute(yaml, setting)) {
      continue;
    }
    LaunchSetting to = translated(setting, setting.value);
    if (!to.key.empty()) {
      settings.push_back(std::move(to));
    }
  }
  const LaunchSetting* adapters = find_setting(yaml, "model.peft.peft_scheme");
  if (adapters != nullptr && !is_none(adapters->value) && adapters->value != "none") {
    config.foreign.push_back("peft_scheme " + adapters->value);
  }
  return settings;
}

}  // namespace trireme::planner
