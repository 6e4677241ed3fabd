// Where every transient buffer of a step program lies in one arena, worked out once from the
// buffers' lifetimes, and which extra waits keep a reused address safe across streams.
#pragma once

#include <cstdint>
#include <vector>

#include "core/program.h"

namespace trireme::runtime::cuda {

struct MemoryPlan {
  std::vector<std::int64_t>
      offsets;  // bytes into the arena, by buffer; -1 for persistent or unused ones
  std::int64_t arena_bytes = 0;
  std::int64_t live_peak_bytes = 0;  // of transient buffers, in issue order
  // For op i: earlier ops, on other streams, whose buffers' memory op i's new buffers take over.
  std::vector<std::vector<OpId>> extra_waits;
};

// Best fit in issue order; every buffer is aligned to 256 bytes.
MemoryPlan plan_memory(const StepProgram& program, const Program& role);

}  // namespace trireme::runtime::cuda
