// What a real framework left of a step, beside a plan of it: a trace of PyTorch's profiler, or a
// snapshot of its allocator.
#pragma once

#include <string>

#include "tools/program.h"

namespace trireme::tools {

struct FrameworkFiles {
  std::string plan, theirs;
  bool has_tolerance = false, json = false;
};

// Whether `theirs` is one of the two; it is compared and printed then. Throws Error.
bool compare_with_framework(const FrameworkFiles& files, const Console& console);

}  // namespace trireme::tools
