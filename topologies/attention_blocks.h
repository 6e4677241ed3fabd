// How the blocks of a fused attention kernel fill a GPU's multiprocessors.
#pragma once

#include <cstdint>

namespace trireme::topologies {

// Rows and columns of a tile: FlashAttention-2 and -3 and cuDNN cut queries by 128 at head sizes up
// to 128 (Dao 2023, 3.3).
inline constexpr double kTileRows = 128;

// One kernel: a block is 128 queries of one head of one sequence, and walks over the keys that its
// queries see.
struct AttentionBlocks {
  std::int64_t rows = 0;  // batch x heads
  std::int64_t queries = 0, keys = 0;
  bool causal = true;  // queries see half of the keys on average
};

// Tiles of 128 queries by 128 keys that pass until the last block ends, when each multiprocessor
// works on one block at a time and takes the next as it ends. Requires: positive sizes.
double tiles_until_done(const AttentionBlocks& blocks, double multiprocessors);

}  // namespace trireme::topologies
