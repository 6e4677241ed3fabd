// What a stage with the embedding has of it besides a layer's backward: a copy that later
// micro-batches read, and a gradient that is still being reduced when the next pass begins.
#pragma once

#include "planner/cost/own_parts.h"
#include "planner/cost/own_stages.h"
#include "planner/cost/stage_memory.h"
#include "planner/plan/plan.h"

namespace trireme::planner::own {

struct EmbeddingMoment {
  const Plan& plan;
  const Shared& shared;
  const Stage& stage;
  const Held& held;
  const Whole& whole;
  const MemoryItems& states;  // what stays
};

// Bytes of the embedding's copy at the fullest moment. Units that are not let go stay until their
// last use: the embedding's in the last micro-batch's forward.
double staying_embedding(const Plan& plan, const Stage& stage, const Whole& whole);

// The fullest of `peak`, of `first`, a chunk's first layer's backward, where it follows the
// embedding's at once, as it does when no forward is left, and of the forward that follows before
// that.
MemoryItems worst_of_embedding(const EmbeddingMoment& at, const MemoryItems& first,
                               const MemoryItems& peak);

}  // namespace trireme::planner::own
