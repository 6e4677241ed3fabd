// This project's attention of ranks that pass keys and values round a ring (runtime/cuda/
// ring_attention.cc): a step is one attention of this rank's queries over one member's keys.
#pragma once

#include <cstdint>

#include "core/units.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

struct RingShape {
  std::int64_t batch = 0, tokens = 0;  // of each sequence, on this rank
  std::int64_t heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0;
};

// The attention of a step alone, on the rank that takes longer: over its own keys, a causal square;
// over others', half of its queries over all of theirs, or all over half.
Seconds ring_step_seconds(const topologies::OpCost& cost, const RingShape& shape, bool own,
                          topologies::Precision precision, topologies::Pass pass);

// Beside the attention of a step: kernels, and what they move. Backward clears what may have no
// gradient and adds the queries' one to that of earlier steps.
struct RingPieces {
  int kernels = 0;
  Bytes traffic;
};
RingPieces ring_pieces(const RingShape& shape, topologies::Pass pass);

}  // namespace trireme::planner
