// Layers spread over pipeline stages by what they cost, not by their number.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/plan.h"

namespace trireme::planner {

// What the parts of a model cost, in any one unit: seconds of a micro-batch, or bytes.
struct PartCosts {
  std::vector<double> layers;  // in model order
  double embedding = 0, head = 0;
  std::vector<double> speeds;  // of each pipeline rank, in any one unit; empty: all alike
};

// Layers of each of the plan's chunks, in model order, such that the busiest
// pipeline rank has as little to do, for its speed, as can be; where that leaves a choice, later
// ranks and later chunks have more, since earlier ones hold more micro-batches. Only the first and
// the last chunk may come out empty: Megatron-LM asks its stages for no more than
// num_layers_to_build >= 0 (core/transformer/transformer_block.py). Requires: pipeline >= 2,
// pipeline * virtual_pipeline <= layers + 2.
std::vector<std::int64_t> balanced_split(const PartCosts& costs, const Plan& plan);

}  // namespace trireme::planner
