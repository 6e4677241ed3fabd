// Collectives message by message: rings in which every rank sends one chunk to its neighbour in
// every step, each chunk a flow over the links of its route. The unfolded view, for fabrics where
// the whole-collective view is in doubt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"
#include "sim/flow_set.h"

namespace trireme::sim {

// Rank r sends step s when its own step s-1 has left and, for s > 0, the neighbour's step s-1 has
// arrived. All-gather and reduce-scatter take n-1 steps, all-reduce 2(n-1), with chunks of size/n.
struct Ring {
  std::vector<std::vector<LinkUse>> routes;  // by rank: to its neighbour, (rank + 1) mod n
  double chunk_bytes = 0;                    // > 0
  std::uint32_t steps = 0;
  Seconds step_latency;         // between what allows a send and its first byte
  std::vector<SimTime> starts;  // by rank; empty: all at 0
};

struct RingOutcome {
  SimTime end;                // all rings done
  std::vector<SimTime> ends;  // by ring
  std::uint64_t flows = 0;    // messages simulated
};

// `flows` brings the links. State grows with the ranks, not with the messages.
RingOutcome simulate_rings(FlowSet& flows, std::span<const Ring> rings);

}  // namespace trireme::sim
