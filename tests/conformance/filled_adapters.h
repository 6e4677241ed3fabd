// Adapters as after some steps: at their beginning the second matrices are 0, and the first ones
// have no gradient.
#pragma once

#include <vector>

#include "core/random.h"
#include "runtime/execute.h"

namespace trireme::tests {

inline void fill_adapters(runtime::RankExecutor& executor) {
  for (const State state : {State::kWeight, State::kMaster}) {
    for (const ParameterSlice& slice :
         parameter_slices(executor.program(), executor.rank(), state)) {
      const Parameter& parameter = executor.role().parameters[slice.parameter];
      if (!parameter.name.ends_with("lora_b.weight")) {
        continue;
      }
      constexpr std::uint64_t kSeed = 5;
      constexpr double kDeviation = 0.1;
      const std::uint64_t key = random_key(kSeed, parameter.name);
      std::vector<double> values;
      for (std::int64_t flat = slice.flat_begin; flat < slice.flat_begin + slice.count; ++flat) {
        const std::int64_t row = slice.row_begin + flat / slice.column_count;
        const std::int64_t column = slice.column_begin + flat % slice.column_count;
        values.push_back(kDeviation * random_normal(key, static_cast<std::uint64_t>(
                                                             row * parameter.columns + column)));
      }
      executor.write_slice(slice, values);
    }
  }
}

}  // namespace trireme::tests
