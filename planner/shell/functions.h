// Functions of a script: where their bodies are and whether anything calls them.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/shell/tokens.h"

namespace trireme::planner {

// The indices of the braces around the body that comes next from `at` on; two equal ones where none
// does.
std::pair<std::size_t, std::size_t> function_body(const std::vector<ShellToken>& tokens,
                                                  std::size_t at);
// Whether a word after `end` is the function's name and does not define it again.
bool is_called_after(const std::vector<ShellToken>& tokens, std::size_t end, std::string_view name);

}  // namespace trireme::planner
