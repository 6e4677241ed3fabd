#include "planner/cost/context_pieces.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kPieceElement = 2;  // bytes, bf16
constexpr int kChunks = 2;
constexpr int kPieces = 4;  // of both chunks: over their own keys, over those before
// Gradients' kernels of one attention (topologies/op_cost.cc).
constexpr int kBackwardKernels = 3;

}  // namespace

ContextPieces context_pieces(const ContextShape& s, bool backward) {
  const std::int64_t out = s.heads * s.head_dim;
  const std::int64_t keys = 2 * s.kv_heads * s.head_dim;
  const std::int64_t own = s.batch * s.queries;
  if (!backward) {  // two outputs are read, one is written
    return {kPieces - 1 + kChunks, Bytes(kPieceElement * 3 * own * out)};
  }
  // Of every piece the gradients of its queries and of its keys are added (two read, one written)
  // to sums that are cleared first. Chunks see their own keys, and (ranks - 1) and ranks chunks.
  const std::int64_t seen = own / kChunks * (2 + s.ranks - 1 + s.ranks);
  const std::int64_t added = 3 * (2 * own * out + seen * keys);
  const std::int64_t cleared = own * (out + keys) + own * s.ranks * keys;
  return {(kPieces - 1) * kBackwardKernels + 2 * kPieces + 2,
          Bytes(kPieceElement * (added + cleared))};
}

}  // namespace trireme::planner
