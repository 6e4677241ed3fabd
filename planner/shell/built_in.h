// Commands of the shell that change a script's own variables.
#pragma once

#include <string>
#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

// shift [N]: the first of the script's words are gone.
void shift_words(const std::vector<ShellText>& words, ShellVariables& variables);

// read -r A B <<< INPUT: cut at any of `separators`; the last name takes what is left. With -a the
// name is an array of all parts.
void read_into_variables(const std::vector<ShellText>& words, const ShellText& input,
                         const std::string& separators, ShellVariables& variables);

}  // namespace trireme::planner
