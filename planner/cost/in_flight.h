// How many micro-batches' activations each chunk of a pipeline rank holds at its peak.
#pragma once

#include <cstdint>

#include "planner/plan.h"

namespace trireme::planner {

// Micro-batches of virtual chunk `chunk` (0 first) that rank `rank` holds when its backward begins
// to drain. Sources: GPipe m; 1F1B min(m, p - r); Megatron's interleaved order, warm-up 2(p-1-r) +
// (v-1)p, one more in steady state; ZB-H1 p on every rank until the weight gradients run; ZB-H2 2p
// - 1 (Qi et al. 2024).
double in_flight(const Plan& plan, std::int64_t rank, std::int64_t chunk);

}  // namespace trireme::planner
