#include "planner/shell/condition.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "planner/shell/arrays.h"
#include "planner/shell/regular_expression.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

constexpr int kConditionDepthMost = 50;

// Base 10, as [ ] takes it; [[ ]] would read 010 in base 8.
std::optional<std::int64_t> number_of(const std::string& text, bool double_brackets) {
  std::int64_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool octal = double_brackets && text.size() > 1 && text[0] == '0';
  const bool whole = failure == std::errc() && stop == text.data() + text.size();
  return whole && !octal ? std::optional(value) : std::nullopt;
}

// Where the locale decides, nothing.
std::optional<bool> stands_before(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool digits =
      std::all_of(a.begin(), a.end(), is_digit) && std::all_of(b.begin(), b.end(), is_digit);
  return digits ? std::optional(a < b) : std::nullopt;
}

std::optional<bool> compare(const ShellText& left, const std::string& op, const ShellText& right,
                            bool double_brackets) {
  if (left.outside || right.outside) {
    return {};
  }
  if (op == "=" || op == "==" || op == "!=") {
    const bool same = double_brackets ? matches_pattern(left.text, right) : left.text == right.text;
    return same == (op != "!=");
  }
  if (op == "<" || op == ">") {
    return op == "<" ? stands_before(left.text, right.text) : stands_before(right.text, left.text);
  }
  const auto a = number_of(left.text, double_brackets);
  const auto b = number_of(right.text, double_brackets);
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

bool is_binary(const std::string& word) {
  constexpr std::string_view kOperators[] = {"=",   "==",  "!=",  "<",   ">",   "=~",  "-eq", "-ne",
                                             "-gt", "-ge", "-lt", "-le", "-nt", "-ot", "-ef"};
  return std::find(std::begin(kOperators), std::end(kOperators), word) != std::end(kOperators);
}

// What =~ leaves behind: the text that matched and its groups, or nothing.
std::optional<bool> take_groups(const ShellText& left, const ShellText& right,
                                ShellVariables& variables) {
  const bool open = left.outside || right.outside;
  std::vector<std::string> groups;
  const auto matches = open ? std::nullopt : matches_expression(left.text, right, groups);
  ShellVariable taken{.values = {}, .array = true};
  for (const std::string& group : groups) {
    taken.values.push_back(plain_text(group, left.lines.empty() ? 0 : left.lines.front()));
  }
  variables.known["BASH_REMATCH"] = matches ? taken : unknown_variable();
  return matches;
}

// Recursive descent over the words between the brackets.
class Test {
 public:
  Test(std::vector<ShellText> words, bool double_brackets, ShellVariables& variables)
      : words_(std::move(words)), double_brackets_(double_brackets), variables_(variables) {}

  std::optional<bool> run() {
    if (words_.empty()) {
      return false;
    }
    const auto result = either();
    return bad_ || at_ != words_.size() ? std::nullopt : result;
  }

 private:
  [[nodiscard]] bool is_next(std::string_view text) const {
    return at_ < words_.size() && words_[at_].text == text;
  }

  bool take(std::string_view text) {
    const bool here = is_next(text);
    at_ += here ? 1 : 0;
    return here;
  }

  std::optional<bool> either() {
    auto result = both();
    while (take(double_brackets_ ? "||" : "-o")) {
      const auto other = both();
      result = result.value_or(false) || other.value_or(false) ? std::optional(true)
               : result && other                               ? std::optional(false)
                                                               : std::nullopt;
    }
    return result;
  }

  std::optional<bool> both() {
    auto result = one();
    while (take(double_brackets_ ? "&&" : "-a")) {
      const auto other = one();
      result = !result.value_or(true) || !other.value_or(true) ? std::optional(false)
               : result && other                               ? std::optional(true)
                                                               : std::nullopt;
    }
    return result;
  }

  std::optional<bool> one() {
    if (++depth_ > kConditionDepthMost || at_ >= words_.size()) {
      bad_ = true;
      return {};
    }
    const auto result = negated_or_primary();
    --depth_;
    return result;
  }

  std::optional<bool> negated_or_primary() {
    const bool compares = at_ + 2 < words_.size() && is_binary(words_[at_ + 1].text);
    if (!compares && at_ + 1 < words_.size() && take("!")) {
      const auto result = one();
      return result ? std::optional(!*result) : std::nullopt;
    }
    if (!compares && take("(")) {
      const auto result = either();
      bad_ = bad_ || !take(")");
      return result;
    }
    const ShellText& word = words_[at_];
    if (compares) {
      at_ += 3;
      if (words_[at_ - 2].text == "=~") {
        return double_brackets_ ? take_groups(word, words_[at_ - 1], variables_) : std::nullopt;
      }
      return compare(word, words_[at_ - 2].text, words_[at_ - 1], double_brackets_);
    }
    const bool unary = word.text.size() == 2 && word.text[0] == '-' && at_ + 1 < words_.size();
    if (unary) {
      const ShellText& of = words_[at_ + 1];
      at_ += 2;
      return of.outside || (word.text[1] != 'z' && word.text[1] != 'n')
                 ? std::nullopt
                 : std::optional(of.text.empty() == (word.text[1] == 'z'));
    }
    ++at_;
    // `[ -n $X ]` of a variable without a value
    const bool lone = word.text == "-n" && !double_brackets_;
    return word.outside ? std::nullopt : std::optional(!word.text.empty() && !lone);
  }

  std::vector<ShellText> words_;
  bool double_brackets_;
  ShellVariables& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool bad_ = false;
};

// The index behind the [a-z] that opens at `open`; `open` where it is a plain bracket.
std::size_t after_class(const ShellText& pattern, std::size_t open) {
  std::size_t at = open + 1;
  at += at < pattern.text.size() && (pattern.text[at] == '!' || pattern.text[at] == '^') ? 1 : 0;
  const std::size_t end = pattern.text.find(']', at + 1);
  return end == kNotFound ? open : end + 1;
}

bool in_class(char c, std::string_view inside) {
  const bool negated = inside.starts_with('!') || inside.starts_with('^');
  inside.remove_prefix(negated ? 1 : 0);
  bool found = false;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (i + 2 < inside.size() && inside[i + 1] == '-') {
      found |= c >= inside[i] && c <= inside[i + 2];
      i += 2;
    } else {
      found |= c == inside[i];
    }
  }
  return found != negated;
}

// Behind the part of the pattern at `p` that takes the character; nothing: it does not.
std::optional<std::size_t> takes(char c, const ShellText& pattern, std::size_t p) {
  if (p >= pattern.text.size()) {
    return {};
  }
  const char own = pattern.text[p];
  const bool plain = pattern.quoted[p];
  if (!plain && own == '[') {
    if (const std::size_t end = after_class(pattern, p); end > p) {
      const std::string_view inside = std::string_view(pattern.text).substr(p + 1, end - p - 2);
      return in_class(c, inside) ? std::optional(end) : std::nullopt;
    }
  }
  return own == c || (own == '?' && !plain) ? std::optional(p + 1) : std::nullopt;
}

}  // namespace

bool matches_pattern(std::string_view text, const ShellText& pattern) {
  const auto is_star = [&](std::size_t p) {
    return p < pattern.text.size() && pattern.text[p] == '*' && !pattern.quoted[p];
  };
  std::size_t t = 0;
  std::size_t p = 0;
  std::size_t star = kNotFound;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (is_star(p)) {
      star = p++;
      resume = t;
    } else if (const auto next = takes(text[t], pattern, p)) {
      p = *next;
      ++t;
    } else if (star != kNotFound) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (is_star(p)) {
    ++p;
  }
  return p == pattern.text.size();
}

bool is_test(std::string_view command) {
  return command == "[" || command == "[[" || command == "test";
}

std::optional<bool> shell_condition(const std::vector<ShellText>& words,
                                    ShellVariables& variables) {
  constexpr std::string_view kSucceed[] = {"true", ":", "echo", "printf", "set", "unset", "shopt"};
  if (words.empty()) {
    return {};
  }
  const std::string& name = words[0].text;
  if (name == "false" ||
      std::find(std::begin(kSucceed), std::end(kSucceed), name) != std::end(kSucceed)) {
    return name != "false";
  }
  if (!is_test(name)) {
    return {};
  }
  std::vector<ShellText> inside(words.begin() + 1, words.end());
  const bool closes = name != "test";
  if (closes && (inside.empty() || inside.back().text != (name == "[" ? "]" : "]]"))) {
    return {};
  }
  inside.resize(inside.size() - (closes ? 1 : 0));
  return Test(std::move(inside), name == "[[", variables).run();
}

}  // namespace trireme::planner
