// What a launch script would run: its commands with every variable worked out, in order. A small
// reader of shell scripts, not a shell: nothing is executed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/launch_config.h"
#include "planner/launch/shell_value.h"

namespace trireme::planner {

struct ShellCommand {
  std::vector<ShellText> words;
  int line = 0;
};

// A loop of which one value was read.
struct ShellLoop {
  std::string variable, value;
  int line = 0;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  ShellVariables variables;                // as they stand at the end
  std::vector<LaunchSetting> environment;  // exported, or set for one command
  std::vector<int> undecided;              // lines of conditions that the file does not decide
  std::vector<ShellLoop> loops;            // over more than one value
};

// Assignments hold in order, later ones win. `if`, `case` and `&&` are decided where the file says
// enough; where it does not, every branch is read in order. The body of a loop is read once.
// `variables` are known beforehand (those of a batch system). Throws Error (FILE:LINE) on a quote
// or a bracket that does not close.
ShellScript read_shell(std::string_view text, const std::string& source,
                       const std::map<std::string, std::string>& variables);

}  // namespace trireme::planner
