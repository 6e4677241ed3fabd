// ${NAME%suffix}, ${NAME/from/to} and their kin: a variable's value, changed (bash manual, Shell
// Parameter Expansion).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "planner/shell/value.h"

namespace trireme::planner {

// What stands in ${…}: NAME, NAME[INDEX], #NAME, !NAME, and what is done with the value.
struct BraceForm {
  std::string_view name, index;  // name: also 1, @, *
  bool counts = false;           // ${#NAME}
  bool indirect = false;         // ${!NAME}
  bool colon = false;            // :- := :+ :?, which take an empty value as none
  char operation = ' ';          // the first character of `rest`
  std::string_view rest;         // from the operation on, without the colon of those four
};
BraceForm brace_form(std::string_view inside);
// All of an array's elements, or all words.
bool names_all(const BraceForm& form);

// `operation` is the first character after the name: % # / ^ or , and `rest` is what follows it,
// worked out. Nothing for an operation that is none of these, or a value too long for it.
std::optional<std::string> edited_value(const std::string& value, char operation,
                                        const ShellText& rest);
// OFFSET:LENGTH, cut at the colon that no bracket holds.
std::pair<std::string_view, std::optional<std::string_view>> offset_and_length(
    std::string_view text);
// Where a slice of `size` things begins and ends; nothing: bash refuses it.
std::optional<std::pair<std::int64_t, std::int64_t>> slice_bounds(
    std::int64_t size, std::int64_t offset, std::optional<std::int64_t> length, bool of_text);

}  // namespace trireme::planner
