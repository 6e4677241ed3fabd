// Scripts that start torchtitan: the TOML after --job.config_file, with what the command says
// behind it (torchtitan v0.2.x: run_train.sh, multinode_trainer.slurm, config/manager.py).
#include <fmt/format.h>

#include "core/error.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

// --job.config_file, --training.seq_len: of torchtitan, and no launcher's.
bool is_titan_flag(std::string_view word) {
  const std::size_t end = std::min(word.find_first_of("= "), word.size());
  return word.starts_with("--") && word.substr(0, end).find('.') != std::string_view::npos;
}

constexpr std::string_view kFile = "--job.config_file";

bool names_the_file(std::string_view word) {
  return word.starts_with("--job.config_file") || word.starts_with("--job.config-file");
}

// The file after the flag or behind its '='.
std::string named_file(const std::vector<ShellText>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i].text;
    if (!names_the_file(word)) {
      continue;
    }
    if (word.size() > kFile.size()) {
      return word.substr(kFile.size() + 1);
    }
    return i + 1 < arguments.size() ? arguments[i + 1].text : "";
  }
  return {};
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
  const std::vector<std::string> words =
      take_script_words(text, flags, [](std::string_view word) { return word.starts_with("-"); });
  const ShellScript script = read_launch_script(text, source, words, reading, around);
  const LaunchCommand command = training_command(script, is_titan_flag, around);
  read_gpu_count(command.launcher, around);
  const std::string file = named_file(command.arguments);
  const auto toml = file.empty() || !reading.read ? std::nullopt : reading.read(file);
  if (!toml) {
    throw Error(source, fmt::format("starts torchtitan with {}, which cannot be read below the "
                                    "script's folder or in its repository; that TOML itself, or "
                                    "the script beside it, would be right",
                                    file.empty() ? "a file that it does not name" : file));
  }
  std::vector<std::string> said;
  for (const ShellText& word : command.arguments) {
    said.push_back(word.text);
  }
  said.insert(said.end(), flags.begin(), flags.end());
  LaunchConfig config = read_torchtitan(*toml, file, said);
  config.gpus = around.gpus;
  config.gpus_per_node = around.gpus_per_node;
  config.tasks_per_node = around.tasks_per_node;
  config.tasks_line = around.tasks_line;
  config.environment = around.environment;
  config.undecided = around.undecided;
  config.unreadable = around.unreadable;
  config.remarks.insert(config.remarks.begin(), around.remarks.begin(), around.remarks.end());
  return config;
}

}  // namespace trireme::planner
