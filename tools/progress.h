// The progress line: on stderr, on a terminal, and only once work has taken a second.
#pragma once

#include <chrono>
#include <string>

#include "tools/program.h"

namespace trireme::tools {

class Progress {
 public:
  Progress(const Console& console, std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;
  void show(double share);  // 0 to 1
  void clear();

 private:
  const Console& console_;
  std::string what_;
  std::chrono::steady_clock::time_point begin_, last_;
  bool drawn_ = false;
};

}  // namespace trireme::tools
