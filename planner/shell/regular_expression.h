// The right side of bash's =~ inside [[ ]].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

// Whether a part of the text matches the extended regular expression, in which quoted characters
// stand for themselves. Nothing where a side is not known, or the expression is none or so large
// that matching may not end.
// `groups`: what the whole and each bracketed part took, as BASH_REMATCH has it.
std::optional<bool> matches_expression(const std::string& text, const ShellText& expression,
                                       std::vector<std::string>& groups);

}  // namespace trireme::planner
