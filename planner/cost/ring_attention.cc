#include "planner/cost/ring_attention.h"

#include <algorithm>

namespace trireme::planner {

using topologies::Pass;

Seconds ring_step_seconds(const topologies::OpCost& cost, const RingShape& s, bool own,
                          topologies::Precision precision, Pass pass) {
  const auto attention = [&](std::int64_t queries, std::int64_t keys) {
    return cost.attention({.batch = s.batch,
                           .heads = s.heads,
                           .kv_heads = s.kv_heads,
                           .query_length = queries,
                           .key_length = keys,
                           .qk_dim = s.qk_dim,
                           .v_dim = s.v_dim,
                           .causal = own,
                           .flash = true,
                           .portable = false},
                          precision, pass);
  };
  if (own) {
    return attention(s.tokens, s.tokens);
  }
  return std::max(attention(s.tokens, s.tokens / 2), attention(s.tokens / 2, s.tokens));
}

RingPieces ring_pieces(const RingShape& s, Pass pass) {
  if (pass == Pass::kForward) {
    return {};
  }
  constexpr std::int64_t kElement = 2;  // bytes, bf16
  const std::int64_t rows = s.batch * s.tokens;
  const std::int64_t cleared = rows * s.kv_heads * (s.qk_dim + s.v_dim);
  const std::int64_t added = 3 * rows * s.heads * s.qk_dim;  // two read, one written
  return {2, Bytes(kElement * (cleared + added))};
}

}  // namespace trireme::planner
