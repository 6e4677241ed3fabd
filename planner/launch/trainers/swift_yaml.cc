// ms-swift's YAML: each key is a flag of `swift sft` or `megatron sft`, ENV holds variables
// (swift/cli/main.py).
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/field_table.h"
#include "planner/launch/yaml_kinds.h"

namespace trireme::planner {
namespace {

// "a b" as two words, which a flag takes as a list.
std::string shell_words(std::string_view value) {
  const std::size_t end = value.find(' ');
  const std::string word = shell_word(value.substr(0, end));
  return end == std::string_view::npos ? word : word + " " + shell_words(value.substr(end + 1));
}

struct Flags {
  std::string variables, flags;
};

// With `own_lines` each flag stands on the line of its key, so that errors name that.
Flags flags_of_yaml(std::string_view text, const std::string& source, bool own_lines) {
  LaunchConfig yaml;
  yaml.source = source;
  read_yaml_settings(text, yaml);
  Flags found;
  int line = 1;
  for (const LaunchSetting& setting : yaml.settings) {
    if (setting.key.starts_with("ENV.")) {
      found.variables += fmt::format("{}={} ", setting.key.substr(4), shell_words(setting.value));
      continue;
    }
    for (; own_lines && line < setting.line; ++line) {
      found.flags += " \\\n";
    }
    found.flags += fmt::format(" --{} {}", setting.key, shell_words(setting.value));
  }
  return found;
}

// One of the keys in the outermost map with a value on its line: `model:` of NeMo opens a section.
bool has_value(std::string_view text, std::string_view keys) {
  const std::vector<std::string_view> names = names_in(keys);
  return std::any_of(names.begin(), names.end(), [&](std::string_view key) {
    const std::string line = fmt::format("\n{}:", key);
    const std::size_t at = text.starts_with(line.substr(1)) ? 0 : text.find(line);
    const std::size_t value =
        at == std::string_view::npos ? at : text.find_first_not_of(' ', text.find(':', at) + 1);
    return value != std::string_view::npos && text[value] != '\n' && text[value] != '#';
  });
}

}  // namespace

bool is_swift_yaml(std::string_view text) {
  return has_value(text, "model load mcore_model") &&
         (has_value(text, "tuner_type train_type rlhf_type cached_dataset") ||
          has_line(text, "dataset", false));
}

bool is_swift_megatron_yaml(std::string_view text) {
  return is_swift_yaml(text) && has_value(text, kMegatronDegrees);
}

std::string swift_command_of_yaml(std::string_view text, const std::string& source) {
  const Flags found = flags_of_yaml(text, source, true);
  return found.variables + "megatron sft" + found.flags + "\n";
}

std::string with_swift_yaml(std::string_view script, const LaunchReading& reading) {
  std::string text(script);
  for (const char* start : {"swift sft ", "swift pt ", "swift rlhf ", "megatron sft ",
                            "megatron pt ", "megatron rlhf "}) {
    const std::size_t at = text.find(start);
    if (at == std::string::npos || !reading.read) {
      continue;
    }
    std::size_t begin = at + std::string_view(start).size();
    const std::size_t named = text.find("--config ", begin);
    begin = named < text.find('\n', begin) ? named + std::string_view("--config ").size() : begin;
    const std::size_t end = std::min(text.find_first_of(" \n\\", begin), text.size());
    std::string name = text.substr(begin, end - begin);
    std::erase(name, '"');
    const bool yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    const auto content =
        yaml ? reading.read(name.substr(name.starts_with('$') ? name.find('/') + 1 : 0))
             : std::nullopt;
    if (content) {
      const Flags found = flags_of_yaml(*content, name, false);
      text.replace(begin, end - begin, found.flags);
      text.insert(at, found.variables);
    }
  }
  return text;
}

}  // namespace trireme::planner
