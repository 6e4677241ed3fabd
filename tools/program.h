// The program around the commands: parsing, the one place where errors become a line and an exit
// code, and what every command may print to. A command is one file with one function, `void
// add_xxx_command(Command& app, Program&)`, declared in commands.h, which describes its options
// and hands its action to Program::on.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/command.h"

namespace trireme::tools {

// What a script can tell from the exit code.
enum ExitCode : int {
  kDone = 0,
  kAnswerIsNo = 1,  // nothing fits, a check failed, a comparison is out of tolerance
  kWrongInput = 2,  // usage, or an Error of kind kBadInput
  kMissingMachine = 3,
};

// Where a command prints. Results go to `out`, everything else to `err`.
struct Console {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  bool colour = false;    // `out` is a terminal and NO_COLOR is not set
  bool progress = false;  // `err` is a terminal and -q was not given
  bool quiet = false;     // -q: no progress, no remarks
};

using Action = std::function<int(Console&)>;  // returns an ExitCode; throws Error

class Program {
 public:
  // `command` runs `action` when it is the one named on the command line.
  void on(const Command* command, Action action) {
    actions_.emplace_back(command, std::move(action));
  }
  // `command` takes what follows a bare "--" of the command line; the others have no such words.
  void takes_rest(const Command* command, std::vector<std::string>& rest) {
    rests_.emplace_back(command, &rest);
  }
  // Where the named command wants those words; nullptr: nowhere.
  [[nodiscard]] std::vector<std::string>* rest() const;
  // The innermost named command's action; nothing when none was named.
  [[nodiscard]] const Action* chosen() const;
  bool quiet = false;  // -q, which every command has

 private:
  std::vector<std::pair<const Command*, Action>> actions_;
  std::vector<std::pair<const Command*, std::vector<std::string>*>> rests_;
};

// A subcommand with -q, whose --help ends with one worked example.
Command* add_command(Command& app, Program& program, const std::string& name,
                     const std::string& description, const std::string& example);

// The whole program: `arguments` without the program's own name. Never throws.
int run_program(const std::vector<std::string>& arguments, Console console);

}  // namespace trireme::tools
