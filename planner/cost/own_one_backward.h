// The worst moment of a step of one micro-batch on one stage.
#pragma once

#include "planner/cost/memory.h"
#include "planner/cost/own_parts.h"

namespace trireme::planner::own {

struct OneBackwardParts {
  const Plan& plan;
  const Stage& stage;
  double kept = 0;  // see Held
  const Tensors& tensors;
  const LayerBytes& layer;
  const Whole& whole;
};

// Such a step frees its gradients (planner/lower/lower.h): they come into being unit by unit while
// activations go, so the worst moment is the head's backward, a layer unit's at either end of the
// stack, or the embedding's. `in_head` and `in_layer`: the first backward of either, `states`: what
// stays; all without gradients. Cost: a handful of sums.
MemoryItems worst_of_one_backward(const OneBackwardParts& parts, MemoryItems in_head,
                                  const MemoryItems& in_layer, const MemoryItems& states);

}  // namespace trireme::planner::own
