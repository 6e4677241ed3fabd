// TOML as settings, where the program is built with toml++.
#include <fmt/format.h>

#include <algorithm>
#ifdef TRIREME_HAVE_TOML
#include <toml++/toml.h>
#endif

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {

#ifdef TRIREME_HAVE_TOML

namespace {

constexpr int kTomlDepthMax = 100;

// toml++ makes a table for every dot of a key and takes them apart by recursion: keys that nest
// without end are refused before. Dots count from the last bracket, comma or line that ends a key.
class Nesting {
 public:
  Nesting(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  void check() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else {
        count(c);
      }
    }
  }

 private:
  void count(char c) {
    if (c == '{' || c == '[') {
      open_.push_back(dots_);
    } else if (c == '}' || c == ']') {
      dots_ = open_.empty() ? 0 : open_.back();
      if (!open_.empty()) {
        open_.pop_back();
      }
    } else if (c == ',') {
      dots_ = open_.empty() ? 0 : open_.back();
    } else if (c == '\n') {
      ++line_;
      dots_ = open_.empty() ? 0 : dots_;
    }
    dots_ += c == '.' ? 1 : 0;
    if (dots_ + static_cast<int>(open_.size()) > kTomlDepthMax) {
      throw Error(fmt::format("{}:{}", source_, line_),
                  fmt::format("has tables in tables more than {} deep; torchtitan's [section] with "
                              "KEY = VALUE would be right",
                              kTomlDepthMax));
    }
  }

  void skip_string(char quote) {
    const bool many = text_.substr(at_, 3) == std::string(3, quote);
    at_ += many ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      line_ += text_[at_] == '\n' ? 1 : 0;
      if (text_[at_] == '\\' && quote == '"') {
        ++at_;
      } else if (many ? text_.substr(at_, 3) == std::string(3, quote) : text_[at_] == quote) {
        at_ += many ? 2 : 0;
        return;
      } else if (!many && text_[at_] == '\n') {
        return;  // toml++ names the quote that is missing
      }
    }
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  int line_ = 1, dots_ = 0;
  std::vector<int> open_;  // the dots outside each bracket that is open
};

std::string text_of_node(const toml::node& node) {
  if (const auto text = node.value<std::string>(); text && node.is_string()) {
    return *text;
  }
  if (node.is_boolean()) {
    return node.value_or(false) ? "true" : "false";
  }
  if (node.is_integer()) {
    return std::to_string(node.value_or<std::int64_t>(0));
  }
  if (node.is_floating_point()) {
    return fmt::format("{:#}", node.value_or(0.0));  // 4.0 is no 4
  }
  if (const toml::array* list = node.as_array(); list != nullptr) {
    std::string all;
    for (const toml::node& element : *list) {
      const char* joint = element.is_array() ? "|" : " ";
      all += (&element == &list->front() ? "" : joint) + text_of_node(element);
    }
    return all;
  }
  return "";
}

void refuse_kind(const toml::node& node, const LaunchSetting& setting, const LaunchConfig& config) {
  const char* kind = node.is_string()  ? "a text"
                     : node.is_array() ? "a list"
                     : node.is_table() ? "a table"
                                       : "no whole number";
  throw Error(where_of(config, setting),
              fmt::format("{} is {}{}; a number such as {} = 4 would be right", setting.spelled,
                          kind, setting.value.empty() ? "" : fmt::format(" ({})", setting.value),
                          setting.spelled.substr(setting.spelled.rfind('.') + 1)));
}

void add_table(const toml::table& table, const std::string& path, int depth, std::string_view whole,
               LaunchConfig& config) {
  if (depth > 20) {
    throw Error(config.source, "has too many tables in tables");
  }
  for (const auto& [key, node] : table) {
    const std::string name =
        path.empty() ? std::string(key.str()) : fmt::format("{}.{}", path, key.str());
    const LaunchSetting setting{name, text_of_node(node), name,
                                static_cast<int>(node.source().begin.line)};
    if (is_among(whole, key.str()) && !node.is_integer()) {
      refuse_kind(node, setting, config);
    }
    if (const toml::table* inner = node.as_table(); inner != nullptr) {
      add_table(*inner, name, depth + 1, whole, config);
    } else {
      config.settings.push_back(setting);
    }
  }
}

}  // namespace

bool reads_toml() {
  return true;
}

void read_toml_settings(std::string_view text, LaunchConfig& config, std::string_view whole) {
  Nesting(text, config.source).check();
  try {
    add_table(toml::parse(text), "", 0, whole, config);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}:{}", config.source, error.source().begin.line),
                fmt::format("{}; TOML would be right", error.description()));
  }
}

#else  // the program is built without toml++

bool reads_toml() {
  return false;
}

void read_toml_settings(std::string_view, LaunchConfig& config, std::string_view) {
  throw Error(
      config.source,
      "TOML cannot be read: this program was built without toml++; install libtomlplusplus-dev and "
      "build it again",
      ErrorKind::kMissingMachine);
}

#endif

}  // namespace trireme::planner
