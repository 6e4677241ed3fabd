#include "planner/launch/python_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/edits.h"
#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

std::string_view bare(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(" \t'\""), text.size());
  return text.substr(first, text.find_last_not_of(" \t'\"") + 1 - first);
}

// What stands in the brackets of int(…) and its kin.
std::string_view without_conversion(std::string_view text) {
  for (const std::string_view call : {"int(", "float(", "str(", "bool("}) {
    if (text.starts_with(call) && text.ends_with(')')) {
      return bare(text.substr(call.size(), text.size() - call.size() - 1));
    }
  }
  return text;
}

}  // namespace

std::string plain_value(std::string text) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      quote = text[i] == quote ? '\0' : quote;
    } else if (text[i] == '\'' || text[i] == '"') {
      quote = text[i];
    } else if (text[i] == '#') {
      text.resize(i);
    }
  }
  text = trimmed(text);
  if (text.size() > 1 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

std::optional<EnvironmentValue> environment_value(std::string_view text) {
  text = without_conversion(text);
  for (const std::string_view call :
       {"os.environ[", "os.environ.get(", "os.getenv(", "environ[", "environ.get(", "getenv("}) {
    if (!text.starts_with(call)) {
      continue;
    }
    std::string_view inside = text.substr(call.size());
    const char closing = call.back() == '[' ? ']' : ')';
    if (inside.empty() || (inside.back() != closing && text.find(closing) == text.npos)) {
      return {};
    }
    inside = inside.substr(0, inside.rfind(closing));
    const std::size_t comma = std::min(inside.find(','), inside.size());
    EnvironmentValue value{std::string(bare(inside.substr(0, comma)))};
    if (comma < inside.size() && closing == ')') {
      value.otherwise = std::string(bare(inside.substr(comma + 1)));
    }
    return value;
  }
  return {};
}

void refuse_slip_of_section(const LaunchConfig& config, std::span<const std::string_view> sections,
                            const std::string& path, int line) {
  const std::string section = path.substr(0, path.find('.'));
  if (std::find(sections.begin(), sections.end(), section) != sections.end()) {
    return;
  }
  for (const std::string_view right : sections) {
    const bool longer =
        right.size() > 4 && section.starts_with(right) && section.find('_') == std::string::npos;
    const bool swapped = section.size() == 3 && right.size() == 3 &&
                         std::is_permutation(section.begin(), section.end(), right.begin());
    if (longer || swapped || is_a_slip(section, right)) {
      throw Error(fmt::format("{}:{}", config.source, line),
                  fmt::format("{} is no section of Megatron-Bridge's configuration; {} would be "
                              "right",
                              section, right));
    }
  }
}

void refuse_lower_case(const LaunchConfig& config, std::string_view value, int line) {
  const std::string_view word = bare(value.substr(0, value.find('#')));
  const bool quoted = value.find_first_of("'\"") != std::string_view::npos;
  if (!quoted && (word == "true" || word == "false")) {
    throw Error(fmt::format("{}:{}", config.source, line),
                fmt::format("{} is no name of Python; {} would be right", word,
                            word == "true" ? "True" : "False"));
  }
}

}  // namespace trireme::planner
