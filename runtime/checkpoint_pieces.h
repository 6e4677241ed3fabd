// What saving and loading a checkpoint agree on: checkpoint.json lists, by parameter and state,
// which piece of the tensor lies where in which rank's file (rank_files.h).
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "core/program.h"

namespace trireme::runtime {

inline constexpr std::array<State, 3> kSaved = {State::kMaster, State::kMoment1, State::kMoment2};

// The part of a tensor that lies in a file: core's ParameterSlice without the memory.
struct Piece {
  std::int64_t row_begin = 0, row_count = 0, column_begin = 0, column_count = 0;
  std::int64_t flat_begin = 0, count = 0;
  friend auto operator<=>(const Piece&, const Piece&) = default;
};

inline Piece piece_of(const ParameterSlice& slice) {
  return {slice.row_begin,    slice.row_count,  slice.column_begin,
          slice.column_count, slice.flat_begin, slice.count};
}

}  // namespace trireme::runtime
