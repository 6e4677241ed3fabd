// Megatron-LM: a shell script, or a file of arguments.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/megatron_settings.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/shell_arguments.h"

namespace trireme::planner {
namespace {

std::string key_of_word(std::string_view word) {
  std::string key(word.substr(2, word.find('=') - 2));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

bool is_megatron_flag(std::string_view word) {
  return word.starts_with("--") && word.find(' ') == std::string_view::npos &&
         use_of_megatron_setting(key_of_word(word)) == MegatronUse::kRead;
}

// Flags whose value is a variable that the file does not set keep Megatron's default.
void keep_flags(std::vector<LaunchSetting> settings, LaunchConfig& config) {
  std::vector<std::string> empty;
  for (LaunchSetting& setting : settings) {
    const MegatronUse use = use_of_megatron_setting(setting.key);
    if (use == MegatronUse::kUnknown) {
      config.unknown.push_back(setting);
    } else if (setting.value.empty() && takes_value(setting.key)) {
      empty.push_back(fmt::format("{} (line {})", setting.spelled, setting.line));
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
                           const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.format = LaunchFormat::kMegatron;
  config.source = source;
  const ShellScript script = read_launch_script(text, source, config);
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
  keep_flags(flags_of(command.arguments), config);
  keep_flags(flags_of(words_of(arguments)), config);
  read_megatron_model(config);
  read_megatron_layout(config);
  return config;
}

}  // namespace trireme::planner
