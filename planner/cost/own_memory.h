// Memory of a stage under this project's runtime, counted from the buffers that planner/lower gives
// an op to read or write: persistent states, activations in flight, and what is alive at once in
// the head's and in a layer's backward.
#pragma once

#include <memory>
#include <vector>

#include "planner/cost/memory.h"
#include "planner/cost/stage_memory.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Whether the plan is one that lower() writes a program for, so that this count holds.
bool counts_own_memory(const Job& job, const Plan& plan);

// One stage. `split`: chunk_layers of the plan. Requires: counts_own_memory.
StageMemory own_stage_memory(const Job& job, const Plan& plan,
                             const std::vector<ChunkLayers>& split, std::int64_t rank);

// Remembers what plans of one job that differ only in what is sharded have in common. One a thread.
class OwnMemory {
 public:
  OwnMemory();
  ~OwnMemory();
  OwnMemory(OwnMemory&&) noexcept;
  OwnMemory& operator=(OwnMemory&&) noexcept;
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  // Every stage. `split`: stage_split of the plan. Requires: counts_own_memory; the same job each
  // time.
  void estimate(const Job& job, const Plan& plan, const StageSplit& split,
                std::vector<StageMemory>& stages);
  // The stage with the most memory, alone, or the first with more than `enough_gib`.
  void estimate_peak(const Job& job, const Plan& plan, const StageSplit& split, double enough_gib,
                     std::vector<StageMemory>& stages);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::planner
