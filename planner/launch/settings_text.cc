// DeepSpeed's JSON as settings, and the constants of a Python configuration. TOML and YAML have
// files of their own, for their libraries may be absent.
#include "planner/launch/read_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"

namespace trireme::planner {
namespace {

// The line of every key of a valid JSON text, by its path.
class KeyLines {
 public:
  explicit KeyLines(std::string_view text) : text_(text) { scan(); }
  [[nodiscard]] int of(const std::string& path) const {
    const auto found = lines_.find(path);
    return found == lines_.end() ? 1 : found->second;
  }

 private:
  void scan() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
      } else if (c == '{' || c == '[') {
        path_.push_back(key_);
        key_.clear();
      } else if (c == '}' || c == ']') {
        key_.clear();
        if (!path_.empty()) {
          path_.pop_back();
        }
      } else if (c == '"') {
        take_string();
      }
    }
  }

  void take_string() {
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      at_ += text_[at_] == '\\' ? 2U : 1U;
    }
    const std::size_t next = text_.find_first_not_of(" \t\r\n", std::min(at_ + 1, text_.size()));
    if (next == std::string_view::npos || text_[next] != ':') {
      return;
    }
    key_ = std::string(text_.substr(begin, at_ - begin));
    std::string path;
    for (const std::string& part : path_) {
      path += part.empty() ? "" : part + ".";
    }
    lines_.emplace(path + key_, line_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string key_;
  std::vector<std::string> path_;
  std::map<std::string, int> lines_;
};

std::string value_text(const nlohmann::json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  return value.is_null() ? "null" : value.dump();
}

void add_object(const nlohmann::json& object, const std::string& path, int depth,
                const KeyLines& lines, LaunchConfig& config) {
  if (depth > 20) {
    throw Error(config.source, "has too many objects in objects");
  }
  for (const auto& [key, value] : object.items()) {
    const std::string name = path.empty() ? key : fmt::format("{}.{}", path, key);
    if (value.is_object() && !value.empty()) {
      add_object(value, name, depth + 1, lines, config);
    } else {
      config.settings.push_back({name, value_text(value), name, lines.of(name)});
    }
  }
}

bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::vector<std::string> between_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    parts.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool is_python_name(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), is_name_letter);
}

// A number, a word in quotes, True, False or None.
bool is_python_constant(const std::string& text) {
  const bool quoted = text.size() > 1 && (text[0] == '"' || text[0] == '\'') &&
                      text.find(text[0], 1) == text.size() - 1;
  return quoted || text == "True" || text == "False" || text == "None" ||
         (!text.empty() && text.find_first_not_of("0123456789._e") == std::string::npos &&
          text[0] >= '0' && text[0] <= '9');
}

// The names that are assigned once, with their values.
std::map<std::string, std::string> python_constants(std::string_view text) {
  std::map<std::string, std::string> constants;
  std::map<std::string, int> times;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    row = row.substr(0, row.find('#'));
    const std::size_t equals = row.find('=');
    if (equals == std::string_view::npos) {
      continue;
    }
    const std::vector<std::string> names = between_commas(row.substr(0, equals));
    const std::vector<std::string> values = between_commas(row.substr(equals + 1));
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (is_python_name(names[i])) {
        ++times[names[i]];
        constants[names[i]] =
            names.size() == values.size() && is_python_constant(values[i]) ? values[i] : "";
      }
    }
  }
  std::erase_if(constants,
                [&](const auto& one) { return one.second.empty() || times[one.first] > 1; });
  return constants;
}

}  // namespace

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  const std::size_t last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

std::string with_python_constants(std::string_view text) {
  const std::map<std::string, std::string> constants = python_constants(text);
  std::string out;
  bool right = false;  // of an '='
  char quote = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    const char c = text[at];
    if (is_name_letter(c)) {
      while (end < text.size() && is_name_letter(text[end])) {
        ++end;
      }
    }
    const std::string word(text.substr(at, end - at));
    const bool alone =
        (at == 0 || text[at - 1] != '.') &&
        (end == text.size() || std::string_view("=.([").find(text[end]) == std::string_view::npos);
    const auto found = constants.find(word);
    const bool stands = right && quote == 0 && alone && found != constants.end();
    out += stands ? found->second : word;
    quote = quote == c ? '\0' : quote == 0 && (c == '"' || c == '\'') ? c : quote;
    right = c != '\n' && (right || c == '=');
    quote = c == '\n' ? '\0' : quote;
    at = end;
  }
  return out;
}

void read_json_settings(std::string_view text, LaunchConfig& config) {
  const nlohmann::json json = parse_json(text, config.source);
  if (!json.is_object()) {
    throw Error(config.source, "is not a JSON object; DeepSpeed's configuration would be right");
  }
  add_object(json, "", 0, KeyLines(text), config);
}

}  // namespace trireme::planner
