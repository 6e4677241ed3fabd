// What a launch script would run: its commands with every variable worked out, in order. A small
// reader of shell scripts, not a shell: nothing is executed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

struct ShellCommand {
  std::vector<ShellText> words;
  std::vector<ShellText> lead = {};  // that start the script which holds it: srun bash -c
  int line = 0;
  std::string round;  // of the loops around it: "TP=2 PP=4"
};

// A loop of more than one round, and what it began with.
struct ShellLoop {
  std::string variable, value;
  int line = 0;
  bool open = false;             // the file does not say which rounds there are: one was read
  bool holds_arguments = false;  // of an open one: its body puts together what a command is given
  bool takes_options = false;    // over options of whoever starts it: none were given, none read
};

// An exported variable, or one set for one command.
struct ShellExport {
  std::string name, value;
  int line = 0;
};

// A condition that the file does not decide: what it asks.
struct ShellQuestion {
  std::string text;
  int line = 0;
};

// A file named by `source` that was not read.
struct ShellUnread {
  std::string name;
  int line = 0;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  ShellVariables variables;  // as they stand at the end
  std::vector<ShellExport> environment;
  std::vector<ShellQuestion> undecided;
  std::vector<ShellLoop> loops;
  std::vector<ShellUnread> unread;
};

// What is known beside the script's text.
struct ShellWorld {
  std::map<std::string, std::string> variables = {};  // those of a batch system
  // The words after the script's name; empty: not said.
  std::vector<std::string> words = {};
  // The text of a file that the script sources, or nothing where it cannot be had. `name` is as
  // the script says it.
  std::function<std::optional<std::string>(const std::string& name)> read = {};
  // Which branch of every undecided condition counts: all of them in order (-1), or only the n-th
  // of each `if` and `case`.
  int choice = -1;
};

// Assignments hold in order, later ones win. `if`, `case` and `&&` are decided where the file says
// enough. A loop is read round by round, or once where the file leaves its rounds
// open. Throws Error (FILE:LINE) on a quote or a bracket that
// does not close.
ShellScript read_shell(std::string_view text, const std::string& source, const ShellWorld& world);

}  // namespace trireme::planner
