// Megatron-LM: a shell script, or a file of arguments.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/megatron.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

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

}  // namespace

LaunchConfig read_megatron(std::string_view text, const std::string& source,
                           const std::vector<std::string>& arguments,
                           const LaunchReading& reading) {
  LaunchConfig config;
  config.format = LaunchFormat::kMegatron;
  config.source = source;
  std::vector<std::string> flags = arguments;
  const std::vector<std::string> words =
      take_script_words(flags, [](std::string_view word) { return word.starts_with("-"); });
  const ShellScript script = read_launch_script(text, source, words, reading, config);
  const LaunchCommand command = training_command(script, is_megatron_flag);
  if (command.arguments.empty()) {
    throw Error(
        source,
        "no command with Megatron-LM's arguments (--num-layers, "
        "--tensor-model-parallel-size, …) is in it; a script that starts pretrain_gpt.py, or "
        "its arguments, would be right");
  }
  for (const ShellText& word : command.launcher) {  // CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun …
    const std::size_t equals = word.text.find('=');
    if (equals != std::string::npos && !word.text.starts_with("-")) {
      config.environment.push_back({word.text.substr(0, equals), word.text.substr(equals + 1),
                                    word.text.substr(0, equals),
                                    word.lines.empty() ? 0 : word.lines.front()});
    }
  }
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
