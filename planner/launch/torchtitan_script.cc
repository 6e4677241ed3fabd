// Scripts that start torchtitan: the TOML after --job.config_file, with what the command says
// behind it (torchtitan v0.2.x: run_train.sh, multinode_trainer.slurm, config/manager.py).
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/torchtitan.h"

namespace trireme::planner {
namespace {

// --job.config_file, --training.seq_len: of torchtitan, and no launcher's.
bool is_titan_flag(std::string_view word) {
  const std::size_t end = std::min(word.find_first_of("= "), word.size());
  return word.starts_with("--") && word.substr(0, end).find('.') != std::string_view::npos;
}

}  // namespace

bool starts_torchtitan(std::string_view text) {
  return text.find("job.config_file") != std::string_view::npos ||
         text.find("job.config-file") != std::string_view::npos;
}

LaunchConfig read_torchtitan_script(std::string_view text, const std::string& source,
                                    const std::vector<std::string>& arguments,
                                    const LaunchReading& reading) {
  LaunchConfig around;
  around.source = source;
  std::vector<std::string> flags = arguments;
  const std::vector<std::string> words = take_script_words(text, flags);
  const ShellScript script = read_launch_script(text, source, words, reading, around);
  const LaunchCommand command = started_command(script, is_titan_flag, around);
  std::string file;
  std::vector<std::string> said;
  for (const LaunchSetting& flag : flags_of(command.arguments)) {
    if (flag.key == "job.config_file") {
      file = flag.value;
    } else if (!note_unset(script, flag, around)) {
      said.push_back("--" + flag.key + (flag.value.empty() ? "" : "=" + flag.value));
    }
  }
  const auto toml = file.empty() || !reading.read ? std::nullopt : reading.read(file);
  if (!toml) {
    throw Error(source, fmt::format("starts torchtitan with {}, which cannot be read below the "
                                    "script's folder or in its repository; that TOML itself, or "
                                    "the script beside it, would be right",
                                    file.empty() ? "a file that it does not name" : file));
  }
  said.insert(said.end(), flags.begin(), flags.end());
  LaunchConfig config = read_torchtitan(*toml, file, said);
  take_over(around, config);
  return config;
}

// --section.key VALUE, --section.key=VALUE and --section.key alone.
void add_titan_arguments(LaunchConfig& config, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string key = arguments[i];
    if (!key.starts_with("--")) {
      continue;
    }
    key.erase(0, 2);
    std::string value = "true";
    if (const auto equals = key.find('='); equals != std::string::npos) {
      value = key.substr(equals + 1);
      key.resize(equals);
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      value = arguments[++i];
    }
    config.settings.push_back({key, value, key, 0});
  }
}

}  // namespace trireme::planner
