// What a rank's compute stream waited for: every instant of a simulated step is either compute or
// the fault of what ended last before the next compute op could start. Unlike the activity of an
// instant (what ran then), this says what would have to be faster.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "core/trace.h"

namespace trireme::sim {

enum class Blame : std::uint8_t {
  kCompute,       // kernels, as long as they take alone
  kOptimizer,     // likewise, of the optimizer's pass; with its own collectives
  kInterference,  // by how much kernels ran longer beside communication, or on a slow rank
  kTensor,
  kContext,
  kExpert,
  kData,        // parameter gathers, gradient reductions
  kExchange,    // a message between stages was under way
  kPeer,        // a neighbouring stage was not ready to send or receive
  kContention,  // a transfer was under way for longer than it takes alone
  kHost,        // the host had not issued the op yet
};
inline constexpr std::size_t kBlames = 11;
std::string_view to_string(Blame blame);

struct RankBlame {
  Rank rank{};
  RoleIndex role{};
  std::array<SimDuration, kBlames> spent{};  // adds up to the step
  [[nodiscard]] SimDuration of(Blame blame) const { return spent[static_cast<std::size_t>(blame)]; }
};

// One entry for each rank that `trace` recorded, in its order. Requires: all ops of each recorded
// rank are in the trace, in order; `times` are those the trace was made with.
std::vector<RankBlame> blame_of(const StepProgram& program, const StepTimes& times,
                                const Trace& trace);

}  // namespace trireme::sim
