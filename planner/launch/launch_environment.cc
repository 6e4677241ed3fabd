// Variables that reach the training besides the script's own exports.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "planner/launch/launch_command.h"
#include "planner/shell/command_string.h"

namespace trireme::planner {
namespace {

void keep_variable(const ShellText& word, std::string_view assignment, LaunchConfig& config) {
  const std::size_t equals = assignment.find('=');
  if (equals != std::string_view::npos && equals > 0) {
    const std::string name(assignment.substr(0, equals));
    config.environment.push_back(
        {name, std::string(assignment.substr(equals + 1)), name, first_line(word)});
  }
}

}  // namespace

void read_command_environment(const std::vector<ShellText>& launcher, LaunchConfig& config) {
  for (const ShellText& word : launcher) {
    if (!word.text.starts_with("-")) {
      keep_variable(word, word.text, config);
    }
  }
}

std::int64_t host_threads_of(const LaunchConfig& config) {
  if (const LaunchSetting* variable = find_variable(config, "OMP_NUM_THREADS")) {
    std::int64_t threads = 0;
    const char* end = variable->value.data() + variable->value.size();
    const auto [stop, failure] = std::from_chars(variable->value.data(), end, threads);
    if (failure == std::errc() && stop == end && threads > 0) {
      return threads;
    }
  }
  return config.one_thread_a_rank && config.gpus_per_node.value_or(1) > 1 ? 1 : 0;
}

void read_job_environment(const ShellScript& script, LaunchConfig& config) {
  for (const ShellCommand& command : script.commands) {
    for (const ShellText& word : command.words) {
      if (word.text.find("env_vars") == std::string::npos) {
        continue;
      }
      const std::size_t begin = word.text.find('{');
      const std::size_t end = word.text.rfind('}');
      if (begin == std::string::npos || end == std::string::npos || end < begin) {
        continue;
      }
      const auto json = nlohmann::json::parse(word.text.substr(begin, end + 1 - begin), nullptr,
                                              /*allow_exceptions=*/false);
      if (!json.is_object() || !json.contains("env_vars") || !json["env_vars"].is_object()) {
        continue;
      }
      for (const auto& [name, value] : json["env_vars"].items()) {
        config.environment.push_back({name,
                                      value.is_string() ? value.get<std::string>() : value.dump(),
                                      name, first_line(word)});
      }
    }
  }
}

void read_inner_environment(const ShellScript& script, LaunchConfig& config) {
  for (const ShellCommand& command : script.commands) {
    for (const std::vector<ShellText>& words : commands_of_words(command.words)) {
      bool exports = false;
      for (const ShellText& word : words) {
        if (exports) {
          keep_variable(word, word.text, config);
        } else if (word.text.starts_with("--export=")) {
          std::string_view rest = std::string_view(word.text).substr(9);
          while (!rest.empty()) {
            const std::size_t end = std::min(rest.find(','), rest.size());
            keep_variable(word, rest.substr(0, end), config);
            rest.remove_prefix(std::min(end + 1, rest.size()));
          }
        }
        exports |= word.text == "export";
      }
    }
  }
}

}  // namespace trireme::planner
