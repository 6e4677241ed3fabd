// Words that hold a whole command line, as of eval, bash -c or a quoted variable.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

// The commands that the words start: those of eval and `sh -c`, and words with " --" inside, are
// cut once more at blanks. Pipes, && and ; end a command and redirections are left out, as outside
// quotes (bash manual, Shell Syntax). What stands before such a word (srun …) leads every command
// of it. At least one command comes back; of a test ([[ … ]]) an empty one.
std::vector<std::vector<ShellText>> commands_of_words(const std::vector<ShellText>& words);

// bash, sh, /bin/bash.
bool is_shell(std::string_view word);
// A script that another one may start; sourced files have any name.
bool is_script_name(std::string_view name);
// Which word is the text that `bash -c` runs.
std::optional<std::size_t> command_word(const std::vector<ShellText>& words);
// The words from the n-th on as one text: what eval runs.
ShellText joined_words(const std::vector<ShellText>& words, std::size_t begin);

}  // namespace trireme::planner
