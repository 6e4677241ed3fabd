// YAML whose leaves are Megatron-LM's arguments by their names inside the program: Primus'
// (modules: pre_trainer: framework: megatron; primus/configs of its repository, summer 2026) and
// FlagScale's (system, model, data). Read as the command that says the same.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/yaml_kinds.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kPrimusOverrides = ".overrides.";
constexpr int kFilesMost = 20;  // that a model's file extends, theirs included

// What a switch is called inside the program where its flag is another word's opposite.
constexpr std::pair<std::string_view, std::string_view> kOpposites[] = {
    {"add_bias_linear", "disable_bias_linear"},
    {"apply_rope_fusion", "no_rope_fusion"},
    {"overlap_p2p_comm", "no_overlap_p2p_communication"},
};

// ${NAME:value}: what stands without the variable.
std::string with_defaults(const std::string& value) {
  const std::size_t colon = value.find(':');
  const bool asks = value.starts_with("${") && value.ends_with("}");
  if (!asks || colon == std::string::npos) {
    return value;
  }
  const std::string otherwise = value.substr(colon + 1, value.size() - colon - 2);
  return otherwise.starts_with("?") ? "" : otherwise;
}

// The parser's spelling of a name inside the program.
std::string flag_named(std::string_view key) {
  std::string flag = fmt::format(" --{}", key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// The flag of one leaf, or nothing where the leaf says what the program does anyway.
std::string flag_of(std::string_view key, const std::string& said) {
  const std::string value = with_defaults(said);
  if (value.empty() || is_among("null None ~", value)) {
    return "";
  }
  if (key == "recompute_num_layers" && value == "0") {
    return "";  // beside recompute_granularity: null
  }
  const bool on = is_among("true True", value);
  if (!on && !is_among("false False", value)) {
    return flag_named(key) + " " + shell_word(value);
  }
  const auto opposite = std::find_if(std::begin(kOpposites), std::end(kOpposites),
                                     [&](const auto& pair) { return pair.first == key; });
  const bool paired = opposite != std::end(kOpposites);
  const std::string off = paired ? std::string(opposite->second) : "no_" + std::string(key);
  if (!on) {
    return reads_megatron_setting(off) ? flag_named(off) : "";
  }
  const bool usual = paired || (reads_megatron_setting(off) && !reads_megatron_setting(key));
  return usual ? "" : flag_named(key);
}

LaunchConfig settings_of(std::string_view text, const std::string& source) {
  LaunchConfig yaml;
  yaml.source = source;
  read_yaml_settings(text, yaml);
  return yaml;
}

std::string_view last_name(std::string_view key) {
  return key.substr(key.rfind('.') + 1);
}

// The arguments of a model's file and of those that it extends, the furthest first.
std::string model_flags(const std::string& name, const LaunchReading& reading, int& files) {
  const auto text = reading.read && ++files <= kFilesMost
                        ? reading.read("primus/configs/models/megatron/" + name)
                        : std::nullopt;
  if (!text) {
    return "";
  }
  std::string inherited;
  std::string own;
  for (const LaunchSetting& setting : settings_of(*text, name).settings) {
    if (setting.key.starts_with("extends")) {
      for (const std::string_view base : names_in(setting.value)) {
        inherited += model_flags(std::string(base), reading, files);
      }
    } else if (setting.key != "bases") {
      own += flag_of(setting.key, setting.value);
    }
  }
  return inherited + own;
}

bool is_flagscale_yaml(std::string_view text) {
  return has_line(text, "system", false) && has_line(text, "model", false) &&
         !has_line(text, "modules", false);
}

bool is_primus_yaml(std::string_view text) {
  return has_line(text, "modules", false) &&
         text.find("framework: megatron\n") != std::string_view::npos;
}

}  // namespace

bool is_flag_yaml(std::string_view text) {
  return is_primus_yaml(text) || is_flagscale_yaml(text);
}

std::string flag_yaml_model(std::string_view text, const std::string& source) {
  for (const LaunchSetting& setting : settings_of(text, source).settings) {
    if (setting.key.starts_with("modules.") && setting.key.ends_with(".model")) {
      return setting.value.substr(0, setting.value.rfind(".y"));
    }
  }
  return "";
}

std::string command_of_flag_yaml(std::string_view text, const std::string& source,
                                 const LaunchReading& reading) {
  const bool primus = is_primus_yaml(text);
  std::string command = "pretrain_gpt.py";
  if (primus) {
    // examples/run_pretrain.sh; primus/configs/modules/megatron: trainer_base.yaml,
    // pre_trainer.yaml
    command.insert(0, "CUDA_DEVICE_MAX_CONNECTIONS=1 ");
    command += " --bf16 --use-distributed-optimizer --use-flash-attn";
    int files = 0;
    command += model_flags(flag_yaml_model(text, source) + ".yaml", reading, files);
  }
  int line = 1;
  for (const LaunchSetting& setting : settings_of(text, source).settings) {
    const bool counts = primus ? setting.key.find(kPrimusOverrides) != std::string::npos
                               : !setting.key.starts_with("experiment.");
    const std::string flag = counts ? flag_of(last_name(setting.key), setting.value) : "";
    for (; !flag.empty() && line < setting.line; ++line) {
      command += " \\\n";
    }
    command += flag;
  }
  return command + "\n";
}

}  // namespace trireme::planner
