// Is a step program sound? Asked after lowering and before any reader trusts it.
#pragma once

#include <string>
#include <vector>

#include "core/program.h"

namespace trireme {

// Problems found, in words that name role and op; empty when the program is sound. Checks:
// - indices in range, operands inside their buffers, kernels with their operands and dims, waits on
// earlier ops;
// - every pair of conflicting uses of a buffer is ordered by streams and waits; transient buffers
// are written before
//   they are read; an op that first touches a buffer comes after the release of memory it may be
//   given (lifetimes());
// - sends and receives match in order with equal tags and sizes; members of a group issue the same
// collectives of the
//   same sizes in the same order; nothing waits in a circle across ranks (an untimed dry run of one
//   rank a role).
// Stops after 20 problems. Cost: tens of nanoseconds an op.
std::vector<std::string> verify(const StepProgram& program);

}  // namespace trireme
