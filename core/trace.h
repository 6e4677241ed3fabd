// When each op of a step program ran: the one output type of walk, simulate and execute, so that prediction and
// measurement are compared by a join over (role, op).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/program.h"
#include "core/units.h"

namespace trireme {

// ready: its stream was free, its waits were over and the host had issued it. start: for an op with a peer or a group
// also that the last member was ready (start - ready is skew), else equal to ready. end - start is the op itself.
// All since the start of the iteration's step on the first rank.
struct OpTiming {
  Rank rank{};
  RoleIndex role{};
  OpId op{};
  std::uint32_t iteration = 0;
  SimTime ready, start, end;
  friend bool operator==(const OpTiming&, const OpTiming&) = default;
};

struct Trace {
  std::string source;                    // "walk", "simulate", "execute"
  std::vector<OpTiming> timings;         // by rank, then op, then iteration
  std::vector<SimDuration> step_times;   // one an iteration: from the step's start to its last op's end, all ranks
  std::vector<Bytes> peak_memory;        // one a role (walk, simulate) or a rank (execute): allocated
  friend bool operator==(const Trace&, const Trace&) = default;
};

// The longest time a rank's compute stream ran ops (stream 0), and the time it waited, of one iteration.
struct RankActivity {
  Rank rank{};
  SimDuration busy;                      // union of the intervals of its compute ops
  SimDuration communicating;             // union of the intervals of its other ops
  SimDuration exposed_communication;     // communicating while no compute op ran
};
std::vector<RankActivity> activity_of(const StepProgram& program, const Trace& trace, std::uint32_t iteration);

}  // namespace trireme
