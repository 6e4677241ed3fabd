// [ … ], [[ … ]] and the patterns of `case`, as far as the words themselves decide them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

// Whether the command succeeds; nothing when it is none of those that always do (echo) and no test,
// or one that the file does not decide. =~ sets BASH_REMATCH.
std::optional<bool> shell_condition(const std::vector<ShellText>& words, ShellVariables& variables);
// Whether the command is one of the above.
bool is_test(std::string_view command);
// Whether a text matches a pattern of *, ?, [a-z] and plain characters; what quotes protect is
// plain.
bool matches_pattern(std::string_view text, const ShellText& pattern);

}  // namespace trireme::planner
