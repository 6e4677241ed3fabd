// Memory over the time of a step: what the buffers of a step program hold, by name, as they come
// and go.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/trace.h"

namespace trireme::tools {

struct MemoryCurve {
  std::vector<std::string> names;        // kinds of buffers: those kept between steps first
  std::vector<double> seconds;           // of each sample, ascending
  std::vector<std::vector<double>> gib;  // of each name, at each sample
  double peak_gib = 0, peak_seconds = 0;
  std::string peak_op;
};

// Of a rank of this role, whose op times `timings` are, in the order of its ops. The names that
// hold most at their own worst are told apart, the others are one; of at most `samples` stretches
// of time, the fullest moment of each. Requires: timings of every op, samples > 1.
MemoryCurve memory_curve(const StepProgram& program, const trireme::Program& role,
                         std::span<const OpTiming> timings, std::size_t samples);

}  // namespace trireme::tools
