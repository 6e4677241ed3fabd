// YAML as settings, where the program is built with yaml-cpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#ifdef TRIREME_HAVE_YAML
#include <yaml-cpp/yaml.h>
#endif

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {

#ifdef TRIREME_HAVE_YAML

namespace {

constexpr int kYamlDepthMax = 20;
constexpr std::size_t kSettingsMax = 100'000;

// yaml-cpp reads nested lists by recursion; a file that nests them without end is refused before.
void refuse_deep_nesting(std::string_view text, const std::string& source) {
  int line = 1;
  int depth = 0;
  int dashes = 0;
  for (const char c : text) {
    depth += c == '[' || c == '{' ? 1 : 0;
    depth = std::max(0, depth - (c == ']' || c == '}' ? 1 : 0));
    dashes += c == '-' || c == '?' ? 1 : 0;
    if (c == '\n') {
      ++line;
      dashes = 0;
    }
    if (depth > 100 || dashes > 500) {
      throw Error(fmt::format("{}:{}", source, line), "has too many lists in lists");
    }
  }
}

// A quoted value over several lines, one of which reads KEY: VALUE: its quote was meant to close
// before, and keys would be lost without a word.
void refuse_swallowed_keys(const YAML::Node& value, std::string_view text,
                           const std::string& source) {
  const YAML::Mark mark = value.Mark();
  const auto begin = static_cast<std::size_t>(std::max(0, mark.pos));
  if (!value.IsScalar() || begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) {
    return;
  }
  const std::string_view quoted = text.substr(begin, text.find(text[begin], begin + 1) - begin);
  for (std::size_t at = quoted.find('\n'); at < quoted.size(); at = quoted.find('\n', at + 1)) {
    const std::size_t first = quoted.find_first_not_of(" \n", at);
    const std::size_t end =
        first == std::string_view::npos
            ? first
            : quoted.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", first);
    if (end < quoted.size() && end > first && quoted[end] == ':') {
      throw Error(fmt::format("{}:{}", source, mark.line + 1),
                  "the quote that opens here takes the keys after it into its value; a closing one "
                  "on the same line would be right");
    }
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-eE_") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

std::string scalar_text(const YAML::Node& node) {
  if (node.IsNull()) {
    return "null";
  }
  if (node.IsScalar()) {
    return node.Scalar();
  }
  std::string all;
  if (node.IsSequence() && node.size() == 1 && node[0].IsScalar() && is_number(node[0].Scalar())) {
    return fmt::format("[{}]", node[0].Scalar());  // a list where a program takes a number
  }
  if (node.IsSequence()) {
    for (const YAML::Node& element : node) {
      if (element.IsScalar()) {
        all += (all.empty() ? "" : " ") + element.Scalar();
      }
    }
  }
  return all;
}

void add_map(const YAML::Node& map, const std::string& path, int depth, std::string_view text,
             LaunchConfig& config) {
  std::map<std::string, bool> keys;  // and whether it holds a map or a list
  for (const auto& entry : map) {
    if (depth > kYamlDepthMax || config.settings.size() > kSettingsMax) {
      throw Error(config.source, "has too many maps in maps, or too many keys");
    }
    if (!entry.first.IsScalar()) {
      continue;
    }
    const std::string key = entry.first.Scalar();
    // PyYAML keeps the last alone: of two maps the first would be lost.
    const int line = entry.first.Mark().line + 1;
    const bool deep = !entry.second.IsScalar();
    const auto [before, first] = keys.emplace(key, deep);
    if (!first && (deep || before->second)) {
      throw Error(fmt::format("{}:{}", config.source, line),
                  fmt::format("has the key '{}' a second time; each may stand once", key));
    }
    if (!first) {
      config.remarks.push_back(
          fmt::format("{} stands a second time (line {}): the last holds", key, line));
    }
    const std::string name = path.empty() ? key : fmt::format("{}.{}", path, key);
    if (entry.second.IsMap()) {
      add_map(entry.second, name, depth + 1, text, config);
    } else {
      refuse_swallowed_keys(entry.second, text, config.source);
      config.settings.push_back({name, scalar_text(entry.second), name, line});
    }
  }
}

}  // namespace

bool reads_yaml() {
  return true;
}

void read_yaml_settings(std::string_view text, LaunchConfig& config) {
  refuse_deep_nesting(text, config.source);
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) {
      throw Error(config.source, "is no map of keys; KEY: VALUE lines would be right");
    }
    add_map(root, "", 0, text, config);
  } catch (const YAML::Exception& error) {
    throw Error(fmt::format("{}:{}", config.source, error.mark.line + 1),
                fmt::format("{}; YAML would be right", error.msg));
  }
}

#else  // the program is built without yaml-cpp

bool reads_yaml() {
  return false;
}

void read_yaml_settings(std::string_view, LaunchConfig& config) {
  throw Error(
      config.source,
      "YAML cannot be read: this program was built without yaml-cpp; install libyaml-cpp-dev and "
      "build it again",
      ErrorKind::kMissingMachine);
}

#endif

}  // namespace trireme::planner
