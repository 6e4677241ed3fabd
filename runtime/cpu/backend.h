// The reference backend: one rank on one thread. Streams are queues; an op runs when its stream
// reaches it and its waits are over, in issue order among those that can. Collectives go through
// shared memory (exchange.h).
#pragma once

#include <cstdint>
#include <memory>

#include "core/program.h"
#include "runtime/backend.h"
#include "runtime/cpu/exchange.h"

namespace trireme::runtime::cpu {

enum class Arithmetic : std::uint8_t {
  kFp64,
  kFp32,
  kBf16,  // values kept in float, every compute-type result rounded to bfloat16
};
// The element widths a program must have been lowered with.
ElementWidths widths_of(Arithmetic arithmetic);

struct CpuOptions {
  Arithmetic arithmetic = Arithmetic::kFp32;
  // Not 0: runs ops in a random order that streams and waits allow, to find a wait that is missing.
  std::uint64_t shuffle_seed = 0;
  bool poison =
      false;  // fills fresh transient buffers with NaN, to find a read of what nobody wrote
};

// `program` and `exchange` must outlive the backend. Throws Error when the program's widths are not
// the arithmetic's.
std::unique_ptr<Backend> make_cpu_backend(const StepProgram& program, Rank rank, Exchange& exchange,
                                          const CpuOptions& options);

}  // namespace trireme::runtime::cpu
