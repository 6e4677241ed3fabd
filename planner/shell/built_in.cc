#include "planner/shell/built_in.h"

#include <algorithm>

#include "planner/shell/names.h"

namespace trireme::planner {
namespace {

// At most `parts_max` parts, the last of which is the rest.
std::vector<ShellText> cut(const ShellText& input, const std::string& separators,
                           std::size_t parts_max) {
  std::vector<ShellText> parts(1);
  for (std::size_t i = 0; i < input.text.size(); ++i) {
    const char c = input.text[i];
    if (parts.size() < parts_max && separators.find(c) != std::string::npos) {
      const bool blank = c == ' ' || c == '\t';
      if (!blank || !parts.back().text.empty()) {
        parts.emplace_back();
      }
      continue;
    }
    parts.back().text += c;
    parts.back().lines.push_back(input.lines[i]);
    parts.back().quoted.push_back(false);
  }
  for (ShellText& part : parts) {
    part.outside = input.outside;
  }
  return parts;
}

}  // namespace

void shift_words(const std::vector<ShellText>& words, ShellVariables& variables) {
  if (!variables.positional || variables.in_function) {
    return;
  }
  const std::string count = words.size() > 1 ? words[1].text : "1";
  const bool digit = count.size() == 1 && count[0] > '0' && count[0] <= '9';
  auto& all = *variables.positional;
  const auto gone = std::min<std::ptrdiff_t>(digit ? count[0] - '0' : 1, std::ssize(all));
  all.erase(all.begin(), all.begin() + gone);
}

void read_into_variables(const std::vector<ShellText>& words, const ShellText& input,
                         const std::string& separators, ShellVariables& variables) {
  std::vector<std::string> names;
  bool array = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    array |= words[i].text.starts_with("-") && words[i].text.find('a') != std::string::npos;
    if (is_shell_name(words[i].text)) {
      names.push_back(words[i].text);
    }
  }
  if (names.empty()) {
    return;
  }
  if (array) {
    variables.known[names.front()] =
        ShellVariable{cut(input, separators, input.text.size() + 1), true};
    return;
  }
  std::vector<ShellText> parts = cut(input, separators, names.size());
  parts.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    variables.known[names[i]] = ShellVariable{{std::move(parts[i])}, false};
  }
}

}  // namespace trireme::planner
