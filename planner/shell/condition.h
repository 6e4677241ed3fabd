// [ … ], [[ … ]] and the patterns of `case`, as far as the words themselves decide them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

// Whether the command succeeds; nothing when it is no test, or one that the file does not decide.
std::optional<bool> shell_condition(const std::vector<ShellText>& words);
// Whether a text matches a pattern of `*` and plain characters.
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace trireme::planner
