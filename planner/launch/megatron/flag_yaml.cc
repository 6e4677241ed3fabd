// YAML whose leaves are Megatron-LM's arguments by their names inside the program: Primus'
// (modules: pre_trainer: framework: megatron; primus/configs of its repository, summer 2026) and
// FlagScale's (system, model, data). Read as the command that says the same.
#include <fmt/format.h>

#include <algorithm>
#include <map>
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

// The parser's spelling of a name inside the program.
std::string flag_named(std::string_view key) {
  std::string flag = fmt::format(" --{}", key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// A list of numbers as Python has it ("0 1": a YAML's list): one for each layer, or a window.
std::string with_brackets(std::string value) {
  if (value.find(' ') == std::string::npos ||
      value.find_first_not_of("0123456789 ") != std::string::npos) {
    return value;
  }
  std::replace(value.begin(), value.end(), ' ', ',');
  return "[" + value + "]";
}

// The flag of one leaf, or nothing where the leaf says what the program does anyway.
std::string flag_of(std::string_view key, const std::string& said) {
  const std::string value = without_variable(said);
  if (value.empty() || is_among("null None ~", value)) {
    return "";
  }
  if (key == "model_type") {
    return value == "mamba" ? " --is-hybrid-model" : "";
  }
  const bool on = is_among("true True", value);
  if (!on && !is_among("false False", value)) {
    return flag_named(key) + " " + shell_word(with_brackets(value));
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
void add_model_arguments(const std::string& name, const LaunchReading& reading, int& files,
                         std::vector<LaunchSetting>& arguments) {
  const auto text = reading.read && ++files <= kFilesMost
                        ? reading.read("primus/configs/models/megatron/" + name)
                        : std::nullopt;
  if (!text) {
    return;
  }
  std::vector<LaunchSetting> own = settings_of(*text, name).settings;
  std::erase_if(own, [&](const LaunchSetting& setting) {
    if (!setting.key.starts_with("extends")) {
      return setting.key == "bases";
    }
    for (const std::string_view base : names_in(setting.value)) {
      add_model_arguments(std::string(base), reading, files, arguments);
    }
    return true;
  });
  for (LaunchSetting& setting : own) {
    setting.line = 0;  // of another file
    arguments.push_back(std::move(setting));
  }
}

// primus/configs/modules/megatron: trainer_base.yaml, pre_trainer.yaml
constexpr std::pair<const char*, const char*> kPrimusDefaults[] = {
    {"bf16", "true"},
    {"use_distributed_optimizer", "true"},
    {"use_flash_attn", "true"},
    {"eval_interval", "1000"}};

// What a program is started with, in order: the last of a name holds, false and null too.
std::vector<LaunchSetting> arguments_in(std::string_view text, const std::string& source,
                                        const LaunchReading& reading, bool primus) {
  std::vector<LaunchSetting> arguments;
  if (primus) {
    for (const auto& [key, value] : kPrimusDefaults) {
      arguments.push_back({key, value, key});
    }
    int files = 0;
    add_model_arguments(flag_yaml_model(text, source) + ".yaml", reading, files, arguments);
  }
  for (LaunchSetting& setting : settings_of(text, source).settings) {
    if (primus ? setting.key.find(kPrimusOverrides) != std::string::npos
               : !setting.key.starts_with("experiment.")) {
      setting.key = last_name(setting.key);
      arguments.push_back(std::move(setting));
    }
  }
  return arguments;
}

bool is_flagscale_yaml(std::string_view text) {
  return has_line(text, "system", false) && has_line(text, "model", false) &&
         !has_line(text, "modules", false);
}

}  // namespace

std::string without_variable(const std::string& value) {
  const std::size_t colon = value.find(':');
  const bool asks = value.starts_with("${") && value.ends_with("}");
  if (!asks || colon == std::string::npos) {
    return value;
  }
  const std::string otherwise = value.substr(colon + 1, value.size() - colon - 2);
  return otherwise.starts_with("?") ? "" : otherwise;
}

bool is_primus_yaml(std::string_view text, std::string_view framework) {
  return has_line(text, "modules", false) &&
         text.find(fmt::format("framework: {}\n", framework)) != std::string_view::npos;
}

bool is_flag_yaml(std::string_view text) {
  return is_primus_yaml(text, "megatron") || is_flagscale_yaml(text);
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
  const bool primus = is_primus_yaml(text, "megatron");
  std::map<std::string, const LaunchSetting*> last;
  const std::vector<LaunchSetting> arguments = arguments_in(text, source, reading, primus);
  for (const LaunchSetting& setting : arguments) {
    last[setting.key] = &setting;
  }
  const auto is_true = [&](const char* key) {
    const auto found = last.find(key);
    return found != last.end() && is_among("true True", without_variable(found->second->value));
  };
  std::string command = "pretrain_gpt.py";
  if (primus) {  // primus/backends/megatron/patches/env_patches.py
    const bool fsdp =
        is_true("use_torch_fsdp2") || is_true("use_megatron_fsdp") || is_true("use_custom_fsdp");
    command = fmt::format("CUDA_DEVICE_MAX_CONNECTIONS={} primus/pretrain.py", fsdp ? 8 : 1);
  }
  int line = 1;
  for (const LaunchSetting& setting : arguments) {
    const bool holds = last[setting.key] == &setting;
    const std::string flag = holds ? flag_of(setting.key, setting.value) : "";
    for (; !flag.empty() && line < setting.line; ++line) {
      command += " \\\n";
    }
    command += flag;
  }
  return command + "\n";
}

}  // namespace trireme::planner
