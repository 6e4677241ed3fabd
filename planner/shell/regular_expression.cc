#include "planner/shell/regular_expression.h"

#include <regex.h>

#include <algorithm>
#include <cctype>

namespace trireme::planner {
namespace {

constexpr std::size_t kMatchedTextMost = 20'000;
constexpr std::size_t kGroupedTextMost = 1'000;
constexpr std::size_t kExpressionMost = 200;
constexpr std::ptrdiff_t kBoundsMost = 1;  // of repetitions {1,9}, whose copies multiply

bool is_bounded(const std::string& text, const std::string& expression) {
  // Where groups are reported, the library's time grows with the square of the text.
  const bool groups = expression.find('(') != std::string::npos;
  return text.size() <= (groups ? kGroupedTextMost : kMatchedTextMost) &&
         expression.size() <= kExpressionMost &&
         std::count(expression.begin(), expression.end(), '{') <= kBoundsMost;
}

// As bash hands it to the library: what quotes protect is escaped. Nothing where a backslash of its
// own could be a reference to a group.
std::optional<std::string> escaped(const ShellText& expression) {
  std::string plain;
  for (std::size_t i = 0; i < expression.text.size(); ++i) {
    const char c = expression.text[i];
    if (!expression.quoted[i] && c == '\\') {
      return {};
    }
    if (expression.quoted[i] && std::ispunct(static_cast<unsigned char>(c)) != 0) {
      plain += '\\';
    }
    plain += c;
  }
  return plain;
}

}  // namespace

std::optional<bool> matches_expression(const std::string& text, const ShellText& expression,
                                       std::vector<std::string>& groups) {
  const auto plain = expression.outside ? std::nullopt : escaped(expression);
  if (!plain || !is_bounded(text, *plain)) {
    return {};
  }
  regex_t compiled;
  if (regcomp(&compiled, plain->c_str(), REG_EXTENDED) != 0) {
    return {};
  }
  std::vector<regmatch_t> parts(compiled.re_nsub + 1);
  const bool matches = regexec(&compiled, text.c_str(), parts.size(), parts.data(), 0) == 0;
  regfree(&compiled);
  for (std::size_t i = 0; matches && i < parts.size(); ++i) {
    const auto [begin, end] = parts[i];
    groups.push_back(begin < 0 ? ""
                               : text.substr(static_cast<std::size_t>(begin),
                                             static_cast<std::size_t>(end - begin)));
  }
  return matches;
}

}  // namespace trireme::planner
