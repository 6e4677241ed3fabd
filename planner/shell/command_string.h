// Words that hold a whole command line, as of eval, bash -c or a quoted variable.
#pragma once

#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

// The commands that the words start: those of eval and `sh -c`, and words with " --" inside, are
// cut once more at blanks. Pipes, && and ; end a command and redirections are left out, as outside
// quotes (bash manual, Shell Syntax). What stands before such a word (srun …) leads every command
// of it. At least one command comes back; of a test ([[ … ]]) an empty one.
std::vector<std::vector<ShellText>> commands_of_words(const std::vector<ShellText>& words);

}  // namespace trireme::planner
