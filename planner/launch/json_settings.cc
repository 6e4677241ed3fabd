#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"
#include "planner/launch/settings_text.h"

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
    if (value.is_object()) {
      add_object(value, name, depth + 1, lines, config);
    } else {
      config.settings.push_back({name, value_text(value), name, lines.of(name)});
    }
  }
}

}  // namespace

void read_json_settings(std::string_view text, LaunchConfig& config) {
  const nlohmann::json json = parse_json(text, config.source);
  if (!json.is_object()) {
    throw Error(config.source, "is not a JSON object; DeepSpeed's configuration would be right");
  }
  add_object(json, "", 0, KeyLines(text), config);
}

}  // namespace trireme::planner
