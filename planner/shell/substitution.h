// $( … ) of commands whose output the file itself decides: echo, printf, tr, sed and their kin over
// known text. Nothing is run.
#pragma once

#include <optional>
#include <string_view>

#include "planner/shell/value.h"

namespace trireme::planner {

// The output of a list of pipelines (A | B; C && D || E), its last line ends taken off; nothing
// where it is not known: another command, or text from outside the file. Throws Error (FILE:LINE)
// as planner/shell/value.h does.
std::optional<ShellText> known_output(ShellVariables& variables, std::string_view command,
                                      int line);

}  // namespace trireme::planner
