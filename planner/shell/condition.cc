#include "planner/shell/condition.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace trireme::planner {
namespace {

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && stop == text.data() + text.size() ? std::optional(value)
                                                                     : std::nullopt;
}

std::optional<bool> compare(const std::string& left, const std::string& op,
                            const std::string& right) {
  if (op == "=" || op == "==") {
    return matches_pattern(left, right);
  }
  if (op == "!=") {
    return !matches_pattern(left, right);
  }
  const auto a = number_of(left);
  const auto b = number_of(right);
  if (!a || !b) {
    return {};
  }
  return op == "-eq"   ? std::optional(*a == *b)
         : op == "-ne" ? std::optional(*a != *b)
         : op == "-gt" ? std::optional(*a > *b)
         : op == "-ge" ? std::optional(*a >= *b)
         : op == "-lt" ? std::optional(*a < *b)
         : op == "-le" ? std::optional(*a <= *b)
                       : std::nullopt;
}

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t t = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == text[t] || pattern[p] == '?')) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

std::optional<bool> shell_condition(const std::vector<ShellText>& words) {
  if (words.size() == 1 && (words[0].text == "true" || words[0].text == "false")) {
    return words[0].text == "true";
  }
  std::vector<std::string> parts;
  bool test = false;
  for (const ShellText& word : words) {
    if (word.text == "[" || word.text == "[[" || word.text == "test" || word.text == "]" ||
        word.text == "]]") {
      test = true;
    } else if (word.outside) {
      return {};
    } else {
      parts.push_back(word.text);
    }
  }
  // Half of `[[ a == b && c == d ]]` has only one of its brackets, or none.
  const bool negated = !parts.empty() && parts.front() == "!";
  parts.erase(parts.begin(), parts.begin() + (negated ? 1 : 0));
  std::optional<bool> result;
  if (parts.size() == 3) {
    result = compare(parts[0], parts[1], parts[2]);
  } else if (parts.size() == 2 && parts[0] == "-z") {
    result = parts[1].empty();
  } else if (parts.size() == 2 && parts[0] == "-n") {
    result = !parts[1].empty();
  } else if (test && parts.size() <= 1) {
    // `[ $X ]`, and `[ -n $X ]` of a variable without a value.
    result = !parts.empty() && !parts[0].empty() && parts[0] != "-n";
  }
  return result && negated ? std::optional(!*result) : result;
}

}  // namespace trireme::planner
