// What `trireme compare` reads from either side: a trace, a run's result, or an estimate or
// simulation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tools/time_split.h"

namespace trireme::tools {

// An op of one role in one step: what it does, where, and for which micro-batch.
struct OpKey {
  std::uint32_t stage = 0;
  std::string phase;  // "forward", …
  std::string
      label;  // "L5.mlp_up mb3"; in a run's result "mlp_up": all layers and micro-batches together
  friend auto operator<=>(const OpKey&, const OpKey&) = default;
};

// Seconds of one op in one step. `transfer` is from when the last member was ready to the end;
// `skew` what this rank waited for the others. Medians over the stage's ranks and the iterations.
struct OpStat {
  std::string category;
  double transfer = 0, skew = 0;
  double count = 0;  // instances of the key in one step of one rank
};

struct ComparedSide {
  std::string path, source;               // "simulate", "execute", "estimate", …
  std::optional<double> step_seconds;     // median
  std::optional<double> peak_memory_gib;  // largest over ranks
  std::map<OpKey, OpStat> ops;            // empty: none known
  bool by_micro_batch = false;            // keys name layer and micro-batch
  std::optional<TimeSplit> split;         // of a trace; a run's result has its measured one
};

// Reads a file of any of the four formats. Throws Error.
ComparedSide read_compared_side(const std::string& path);
// The predictions that a run's result carries beside its measurements. Throws Error when it has
// none.
ComparedSide predicted_side_of_result(const std::string& path);
// The key without layer and micro-batch.
OpKey without_place(OpKey key);
// Ops with layer and micro-batch left out of their keys, instances added up into counts.
std::map<OpKey, OpStat> merged_ops(const ComparedSide& side);

}  // namespace trireme::tools
