// What the operators and the literals of bash's arithmetic are worth (bash manual, Shell
// Arithmetic).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::planner {

struct Number {
  std::int64_t value = 0;
  bool known = true;
};

constexpr Number kUnknown{0, false};

// `left op right`. Where bash would fail, or 64 bits do not hold the result, `wrong` says so.
Number worked_out(std::string_view op, Number left, Number right, std::string& wrong);

// Digits in base 10 with their sign, of all 64 bits.
std::optional<std::int64_t> plain_number(std::string_view text);

// 64, 0x40, 0100 (octal) and BASE#DIGITS; nothing: no number, or, with `wrong`, one that bash
// refuses.
std::optional<Number> literal_number(std::string_view word, std::string& wrong);

}  // namespace trireme::planner
