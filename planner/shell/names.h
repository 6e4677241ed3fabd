// What bash calls a name.
#pragma once

#include <string_view>

namespace trireme::planner {

constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_shell_name(std::string_view text);

// NAME, NAME+ or NAME[0] before the first '='; empty when the word is no assignment.
std::string_view assigned_name(std::string_view word);

}  // namespace trireme::planner
