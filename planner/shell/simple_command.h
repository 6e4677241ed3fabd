// One simple command of a script: its assignments, its words, and what it is given to read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/shell/branches.h"
#include "planner/shell/script.h"
#include "planner/shell/token_stream.h"

namespace trireme::planner {

struct SimpleCommand {
  ShellCommand command;
  std::vector<std::string> assigned;  // names, those of `export NAME` among them
  bool declares = false, exports = false;
  std::optional<ShellText> input;  // <<< TEXT, or a here-document
  std::string output;              // > FILE
};

// Reads to the command's end. Assignments hold, and words are worked out, when it `runs`.
SimpleCommand read_simple_command(TokenStream& stream, bool runs, Branches& branches,
                                  ShellVariables& variables);

// Part of a command that starts a training, or a line of bare arguments.
bool holds_arguments(const ShellText& word);

}  // namespace trireme::planner
