// How long each op of a step program takes alone on its hardware: what walk and simulate are both
// given, so that they differ by contention and faults only. Both read it by the same rules:
// - The host of a rank issues its ops in order, issuing op i costs launch(i): op i is issued at the
// sum of
//   launch(0) .. launch(i).
// - ready = the latest of: issued; the end of the op before it on its stream; the ends of the ops
// it waits for.
// - Compute and Copy: start = ready. A collective: start = the latest ready of the members. The
// k-th Send on a
//   channel and the k-th Recv of its peer on it: start = the later ready of the two. end = start +
//   duration.
// - Members' durations of one collective or message are equal; where they are not, the longest
// holds.
#pragma once

#include <vector>

#include "core/units.h"

namespace trireme {

struct OpTime {
  SimDuration duration;  // >= 0
  SimDuration launch;    // host time to issue it, >= 0
  // Of a compute op's duration, what no collective slows: its stream waits for the host. Of a
  // collective's: what slows no compute op.
  SimDuration apart{};
  friend bool operator==(const OpTime&, const OpTime&) = default;
};

struct StepTimes {
  std::vector<std::vector<OpTime>> roles;  // by role, then op
  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

}  // namespace trireme
