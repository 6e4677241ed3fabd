// This project's attention of a share of the queries over gathered keys (runtime/cuda/
// context_attention.cc): each of a rank's two chunks of queries over its own keys and over all
// before, as attention of its own, and the parts put together.
#pragma once

#include <cstdint>

#include "core/units.h"

namespace trireme::planner {

struct ContextShape {
  std::int64_t batch = 0, queries = 0;  // of each sequence, on this rank
  std::int64_t ranks = 1;               // that share a sequence
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

// Beside one attention of the same work: kernels, and what those that add parts up move.
struct ContextPieces {
  int kernels = 0;
  Bytes traffic;
};
// Of the last rank, whose chunks both have keys before them.
ContextPieces context_pieces(const ContextShape& shape, bool backward);

}  // namespace trireme::planner
