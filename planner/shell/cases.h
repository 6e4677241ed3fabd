// `case` of a script: its subject and the patterns of its branches.
#pragma once

#include "planner/shell/branches.h"
#include "planner/shell/token_stream.h"
#include "planner/shell/value.h"

namespace trireme::planner {

// Behind `case`, to the `in` and the newlines behind it: the frame to open.
Frame read_case(TokenStream& stream, ShellVariables& variables);
// `a|b)` at the start of a branch of the innermost `case`, or what ends it, as far as the stream
// stands there; false: another word.
bool read_case_pattern(TokenStream& stream, Branches& branches, ShellVariables& variables);

}  // namespace trireme::planner
