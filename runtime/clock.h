// The clock that a run's times are of: steady, and one for all processes of a host.
#pragma once

#include <chrono>

namespace trireme::runtime {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace trireme::runtime
