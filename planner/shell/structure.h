// Which commands of a script belong together, as bash's grammar has it (bash manual, Compound
// Commands).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/shell/tokens.h"

namespace trireme::planner {

// The tokens of a script with brackets of our own: ( ) around each part of a pipeline and around
// what ends with &, which run in a subshell, and { } around a loop that is joined by &&, || or !.
// Throws Error (FILE:LINE) where a quote, a bracket, `if`, `case`, a loop or { does not close, or
// where fi, done or esac closes nothing.
std::vector<ShellToken> script_tokens(std::string_view text, const std::string& source);
// The same of tokens that were cut already.
std::vector<ShellToken> with_brackets(std::vector<ShellToken> tokens, const std::string& source);

}  // namespace trireme::planner
