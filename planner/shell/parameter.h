// ${NAME%suffix}, ${NAME/from/to} and their kin: a variable's value, changed (bash manual, Shell
// Parameter Expansion).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::planner {

// What stands in ${…}: NAME, NAME[INDEX], #NAME, and what is done with the value.
struct BraceForm {
  std::string_view name, index;
  bool counts = false;            // ${#NAME}
  bool all_words = false;         // ${@…}, ${*…}, ${#}, …: `rest` is the whole of it
  bool colon = false;             // :- := :+ :?, which take an empty value as none
  char operation = ' ';           // the first character of `rest`
  std::string_view rest;          // from the operation on, without the colon of those four
  std::string_view as_written{};  // the same with it
};
BraceForm brace_form(std::string_view inside);

// `operation` is the first character after the name: % # / ^ , or : (with an offset and a length).
// `rest` is what follows it, worked out. Nothing for an operation that is none of these.
std::optional<std::string> edited_value(const std::string& value, char operation,
                                        std::string_view rest);

}  // namespace trireme::planner
