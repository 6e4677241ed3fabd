// The step as a picture of letters: one line a stage, time from left to right, so that the bubble
// can be seen.
#pragma once

#include <string>
#include <vector>

#include "core/program.h"
#include "core/trace.h"
#include "tools/program.h"

namespace trireme::tools {

// What fills most of a slice of a rank's time.
enum class Paint : char {
  kIdle = '.',
  kForward = 'F',
  kBackward = 'B',
  kWeightGradient = 'W',
  kRecompute = 'R',
  kOptimizer = 'O',
  kExchange = '-',  // communication with no compute beside it
};

struct TimelineRow {
  Rank rank{};
  RoleIndex role{};
  std::vector<Paint> cells;
};
// One row for each rank of the trace, at most `rows` of them, each of `columns` slices.
std::vector<TimelineRow> timeline(const StepProgram& program, const Trace& trace,
                                  std::size_t columns, std::size_t rows);

void print_timeline(const Console& console, const StepProgram& program, const Trace& trace);

}  // namespace trireme::tools
