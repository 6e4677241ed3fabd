// What a rank's memory holds at its worst moment: the buffers of the step program, by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program.h"

namespace trireme::tools {

struct LiveBuffers {
  std::string name;         // "gathered", "whole_gradients", "master", …: all layers together
  bool persistent = false;  // between steps too
  std::int64_t count = 0;
  Bytes bytes;
};
struct LiveAtPeak {
  std::string op;                    // in issue order, the first at which most is alive
  Bytes bytes;                       // the sum of the buffers
  std::vector<LiveBuffers> buffers;  // largest first
};
// Of a rank of this role. Cost: a pass over its ops and buffers.
LiveAtPeak live_at_peak(const StepProgram& program, const trireme::Program& role);

}  // namespace trireme::tools
