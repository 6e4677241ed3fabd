// What the ranks measured of their ops, as one trace (core/trace.h).
#pragma once

#include <vector>

#include "core/program.h"
#include "core/trace.h"
#include "runtime/backend.h"
#include "runtime/execute.h"

namespace trireme::runtime {

// `results` by rank, then iteration; `memory` by rank. A communication starts when its last member
// was ready, also where the backend saw its own rank only. Requires: the ranks' clocks are one
// host's (StepResult::began).
Trace make_trace(const StepProgram& program, const std::vector<std::vector<StepResult>>& results,
                 const std::vector<MemoryUse>& memory);

}  // namespace trireme::runtime
