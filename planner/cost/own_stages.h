// The stages of a plan under this project's runtime, alike ones as one: what plans that differ only
// in what is sharded over whom have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/own_parts.h"
#include "planner/cost/stage_memory.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner::own {

// Ranks whose stages have the same layers and ends, one behind the other.
struct Run {
  Stage stage;
  std::int64_t first = 0, end = 0;
};

struct Shared {
  Tensors tensors;
  Reads reads;
  LayerBytes layer;
  Units units, trained;
  double tokens = 0;      // of a micro-batch
  double workspaces = 0;  // bytes of the backend's own
  bool blocking = false;  // see exchanges_block
  std::vector<Run> runs;
  std::vector<Held> held;          // by rank
  std::vector<ChunkKept> at_hand;  // of the ranks that are counted
};

bool differ_in_sharding_only(const Plan& a, const Plan& b);
void share(const Job& job, const Plan& plan, const StageSplit& split, Shared& shared);
// All but the stages.
Shared shared_of(const Job& job, const Plan& plan);
// What one stage holds.
Held held_of(const Plan& plan, const std::vector<ChunkLayers>& split, const Shared& shared,
             std::int64_t rank);

}  // namespace trireme::planner::own
