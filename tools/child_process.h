// A command in a process group of its own, which never outlives what started it.
#pragma once

#include <string>

namespace trireme::tools {

struct Ended {
  int exit_code = 0;  // 128 + signal when a signal ended it
  bool timed_out = false;
  double seconds = 0;
};

// Runs `command` by /bin/sh with its output in the file `log`. Every process of its group is ended
// when the command ends, when `limit` seconds have passed, and when this process dies, whatever
// kills it. Throws Error when the log cannot be written.
Ended run_command(const std::string& command, const std::string& log, double limit);

}  // namespace trireme::tools
