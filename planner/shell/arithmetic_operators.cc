#include "planner/shell/arithmetic_operators.h"

#include <fmt/format.h>

#include <charconv>

namespace trireme::planner {
namespace {

constexpr std::string_view kOver = "is more than 64 bits hold";

Number no_number(std::string_view why, std::string& wrong) {
  wrong = why;
  return kUnknown;
}

Number divided(std::int64_t a, std::int64_t b, bool divides, std::string& wrong) {
  if (b == 0) {
    return no_number("divides by zero; a divisor that is not 0 would be right", wrong);
  }
  if (b == -1) {  // the processor traps where the quotient has no 64 bits
    std::int64_t value = 0;
    if (divides && __builtin_sub_overflow(std::int64_t{0}, a, &value)) {
      return no_number(kOver, wrong);
    }
    return {divides ? value : 0, true};
  }
  return {divides ? a / b : a % b, true};
}

Number to_the_power(std::int64_t base, std::int64_t exponent, std::string& wrong) {
  if (exponent < 0) {
    return no_number("has an exponent below 0; one of at least 0 would be right", wrong);
  }
  if (base == 0 || base == 1 || base == -1) {
    return {exponent % 2 == 0 && base != 0 ? 1 : exponent == 0 ? 1 : base, true};
  }
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) {
      return no_number(kOver, wrong);
    }
  }
  return {result, true};
}

// By more than 63, or less than 0, every processor shifts as it likes.
Number shifted(std::int64_t a, std::int64_t b, bool left) {
  if (b < 0 || b > 63) {
    return kUnknown;
  }
  return {left ? static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << b) : a >> b, true};
}

bool compared(std::string_view op, std::int64_t a, std::int64_t b) {
  return op == "=="   ? a == b
         : op == "!=" ? a != b
         : op == "<=" ? a <= b
         : op == ">=" ? a >= b
         : op == "<"  ? a < b
                      : a > b;
}

std::int64_t digit_of(char c, std::int64_t base) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'z' ? c - 'a' + 10
         : c >= 'A' && c <= 'Z' ? c - 'A' + (base <= 36 ? 10 : 36)
         : c == '@'             ? 62
         : c == '_'             ? 63
                                : -1;
}

}  // namespace

Number worked_out(std::string_view op, Number left, Number right, std::string& wrong) {
  if (!left.known || !right.known) {
    return kUnknown;
  }
  const std::int64_t a = left.value;
  const std::int64_t b = right.value;
  std::int64_t value = 0;
  if (op == "+" || op == "-" || op == "*") {
    const bool over = op == "+"   ? __builtin_add_overflow(a, b, &value)
                      : op == "-" ? __builtin_sub_overflow(a, b, &value)
                                  : __builtin_mul_overflow(a, b, &value);
    return over ? no_number(kOver, wrong) : Number{value, true};
  }
  if (op == "/" || op == "%") {
    return divided(a, b, op == "/", wrong);
  }
  if (op == "**") {
    return to_the_power(a, b, wrong);
  }
  if (op == "<<" || op == ">>") {
    return shifted(a, b, op == "<<");
  }
  if (op == "|" || op == "^" || op == "&") {
    return {op == "|" ? a | b : op == "^" ? a ^ b : a & b, true};
  }
  return {compared(op, a, b) ? 1 : 0, true};
}

std::optional<std::int64_t> plain_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool decimal = digits.size() == 1 || !digits.starts_with('0');
  return failure == std::errc() && stop == text.data() + text.size() && decimal
             ? std::optional(value)
             : std::nullopt;
}

std::optional<Number> literal_number(std::string_view word, std::string& wrong) {
  std::int64_t base = 10;
  std::string_view digits = word;
  if (const std::size_t mark = word.find('#'); mark != std::string_view::npos) {
    const auto [stop, failure] = std::from_chars(word.data(), word.data() + mark, base);
    if (failure != std::errc() || stop != word.data() + mark || base < 2 || base > 64) {
      return {};
    }
    digits = word.substr(mark + 1);
  } else if (word.starts_with("0x") || word.starts_with("0X")) {
    base = 16;
    digits = word.substr(2);
  } else if (word.size() > 1 && word[0] == '0') {
    base = 8;
  }
  std::int64_t value = 0;
  for (const char c : digits) {
    const std::int64_t digit = digit_of(c, base);
    if (base == 8 && (c == '8' || c == '9')) {
      wrong = fmt::format("has {}, which is octal; 10#{} would be right", word, word);
      return {};
    }
    if (digit < 0 || digit >= base) {
      return {};
    }
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, digit, &value)) {
      wrong = kOver;
      return {};
    }
  }
  return digits.empty() ? std::nullopt : std::optional(Number{value, true});
}

}  // namespace trireme::planner
