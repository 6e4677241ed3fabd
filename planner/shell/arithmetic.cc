// $((A*B)) and ((A > B)): recursive descent over the four operations, the remainder, comparisons,
// && || ! ? : and brackets.
#include <fmt/format.h>

#include <charconv>

#include "core/error.h"
#include "planner/shell/names.h"
#include "planner/shell/value.h"

namespace trireme::planner {
namespace {

constexpr int kDepthMax = 100;

class Arithmetic {
 public:
  Arithmetic(const ShellVariables& variables, std::string_view text, int line)
      : variables_(variables), text_(text), line_(line) {}

  std::optional<std::int64_t> run() {
    const std::int64_t value = choice();
    skip_blanks();
    return ok_ && at_ == text_.size() ? std::optional(value) : std::nullopt;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(place_of(variables_, line_), fmt::format("$(({})) {}", text_, what));
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\\')) {
      ++at_;
    }
  }

  // The operator when it comes next; `**` is not one of ours.
  bool take(char op) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == op &&
        !(op == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '*')) {
      ++at_;
      return true;
    }
    return false;
  }

  bool take(std::string_view op) {
    skip_blanks();
    const bool here = text_.substr(at_).starts_with(op);
    at_ += here ? op.size() : 0;
    return here;
  }

  // A > B ? C : D
  std::int64_t choice() {
    const std::int64_t value = disjunction();
    if (!ok_ || !take('?')) {
      return value;
    }
    if (++depth_ > kDepthMax) {
      fail("has too many questions");
    }
    skipped_ += value == 0 ? 1 : 0;
    const std::int64_t yes = choice();
    skipped_ -= value == 0 ? 1 : 0;
    ok_ = ok_ && take(':');
    skipped_ += value != 0 ? 1 : 0;
    const std::int64_t no = choice();
    skipped_ -= value != 0 ? 1 : 0;
    --depth_;
    return value != 0 ? yes : no;
  }

  std::int64_t disjunction() {
    std::int64_t value = conjunction();
    while (ok_ && take("||")) {
      const std::int64_t other = conjunction();
      value = value != 0 || other != 0 ? 1 : 0;
    }
    return value;
  }

  std::int64_t conjunction() {
    std::int64_t value = comparison();
    while (ok_ && take("&&")) {
      const std::int64_t other = comparison();
      value = value != 0 && other != 0 ? 1 : 0;
    }
    return value;
  }

  std::int64_t comparison() {
    std::int64_t value = sum();
    while (ok_) {
      if (take("<=")) {
        value = value <= sum() ? 1 : 0;
      } else if (take(">=")) {
        value = value >= sum() ? 1 : 0;
      } else if (take("==")) {
        value = value == sum() ? 1 : 0;
      } else if (take("!=")) {
        value = value != sum() ? 1 : 0;
      } else if (take('<')) {
        value = value < sum() ? 1 : 0;
      } else if (take('>')) {
        value = value > sum() ? 1 : 0;
      } else {
        break;
      }
    }
    return value;
  }

  std::int64_t sum() {
    std::int64_t value = product();
    while (ok_) {
      bool over = false;
      if (take('+')) {
        over = __builtin_add_overflow(value, product(), &value);
      } else if (take('-')) {
        over = __builtin_sub_overflow(value, product(), &value);
      } else {
        break;
      }
      if (over) {
        fail("is more than 64 bits hold");
      }
    }
    return value;
  }

  std::int64_t product() {
    std::int64_t value = atom();
    while (ok_) {
      if (take('*')) {
        if (__builtin_mul_overflow(value, atom(), &value)) {
          fail("is more than 64 bits hold");
        }
        continue;
      }
      const bool divides = take('/');
      if (!divides && !take('%')) {
        break;
      }
      const std::int64_t by = atom();
      if (by == 0) {
        if (!ok_) {
          break;
        }
        if (skipped_ > 0) {
          value = 0;
          continue;
        }
        fail("divides by zero; a divisor that is not 0 would be right");
      }
      if (by == -1) {  // the processor traps where the quotient has no 64 bits
        if (divides && __builtin_sub_overflow(std::int64_t{0}, value, &value)) {
          fail("is more than 64 bits hold");
        }
        value = divides ? value : 0;
      } else {
        value = divides ? value / by : value % by;
      }
    }
    return value;
  }

  std::int64_t atom() {
    if (++depth_ > kDepthMax) {
      fail("has too many brackets");
    }
    const std::int64_t value = bracket_or_number();
    --depth_;
    return value;
  }

  std::int64_t bracket_or_number() {
    if (take('(')) {
      const std::int64_t value = choice();
      ok_ = ok_ && take(')');
      return value;
    }
    if (take('!')) {
      return atom() == 0 ? 1 : 0;
    }
    if (take('-')) {
      const std::int64_t value = atom();
      ok_ = ok_ && value != std::numeric_limits<std::int64_t>::min();
      return ok_ ? -value : 0;
    }
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) {
      ++at_;
    }
    return value_of(text_.substr(begin, at_ - begin));
  }

  std::int64_t value_of(std::string_view word) {
    if (const auto found = variables_.known.find(word);
        found != variables_.known.end() && !found->second.values.empty()) {
      word = found->second.values.front().text;
    }
    std::int64_t value = 0;
    const auto [stop, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
    ok_ = ok_ && failure == std::errc() && stop == word.data() + word.size();
    return ok_ ? value : 0;
  }

  const ShellVariables& variables_;
  std::string_view text_;
  int line_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int skipped_ = 0;  // branches not taken that what is read stands in: there nothing is wrong
  bool ok_ = true;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(const ShellVariables& variables,
                                             std::string_view expression, int line) {
  return Arithmetic(variables, expression, line).run();
}

}  // namespace trireme::planner
