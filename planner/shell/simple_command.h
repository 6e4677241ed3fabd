// One simple command of a script: its assignments, its words, and what it is given to read.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/shell/branches.h"
#include "planner/shell/script.h"
#include "planner/shell/token_stream.h"

namespace trireme::planner {

// Variables that are set for one command alone: what they are behind it.
using SetAlone = std::vector<std::pair<std::string, std::optional<ShellVariable>>>;

struct SimpleCommand {
  ShellCommand command;
  std::vector<std::string> assigned;  // names, those of `export NAME` among them
  bool declares = false, exports = false;
  std::optional<ShellText> input;      // <<< TEXT, < FILE, or a here-document
  std::optional<ShellToken> document;  // the here-document that a shell is fed
  std::string output;                  // > FILE
  bool appends = false;                // >> FILE
  SetAlone before;
};

// Reads to the command's end. Assignments hold, and words are worked out, when it `runs`.
SimpleCommand read_simple_command(TokenStream& stream, bool runs, Branches& branches,
                                  ShellVariables& variables);

// What the script's own file holds after a command that ran: the text of a here-document that cat
// writes or appends; of any other command's output nothing is known.
void note_written(const SimpleCommand& command, ShellVariables& variables);

// Variables that were set for one command are what they were.
void restore(const SetAlone& before, ShellVariables& variables);

}  // namespace trireme::planner
