// The longest path through a step program: when each op runs if nothing contends for a link. Rules
// of time: see core/op_times.h. One rank a role is walked, since ranks of a role are alike.
#pragma once

#include "core/op_times.h"
#include "core/program.h"
#include "core/trace.h"

namespace trireme::planner {

struct WalkOptions {
  bool keep_timings = true;  // false: step time and memory only
};

// Trace::timings has one rank a role (its first), peak_memory one entry a role. Requires: verify()
// found no problem. Cost: about 30 ns an op.
Trace walk(const StepProgram& program, const StepTimes& times, const WalkOptions& options = {});

}  // namespace trireme::planner
