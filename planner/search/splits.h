// How the layers of a job may be spread over its pipeline chunks: as the framework does by itself,
// and balanced by time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planner/cost/layer_times.h"
#include "planner/cost/memory.h"
#include "planner/cost/time.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/search/constraint.h"

namespace trireme::planner {

// Chunks a stage worth trying: those that are even; where none is, the fewest for each size of the
// largest chunk, since more of them only make others shorter. `all`: every number there can be.
std::vector<std::int64_t> chunk_counts(const Job& job, std::int64_t pipeline, bool all);

// Plan::stage_layers and Plan::prediction_apart.
struct ChunkSplit {
  std::vector<std::int64_t> layers;
  bool prediction_apart = false;
};

class StageSplits {
 public:
  StageSplits(const Job& job, const FixedChoices& fixed);
  // Layers of each chunk worth trying, the framework's own (empty) first. Never none.
  std::vector<ChunkSplit> of(const Plan& plan);
  // Empty where there are more chunks than layers and ends to fill them, or too many of either.
  std::vector<std::int64_t> balanced(const Plan& plan);

 private:
  const PartCosts& costs_of(const Plan& plan);
  std::vector<std::int64_t> balanced_apart(const Plan& plan);
  std::vector<std::int64_t> lean(const Plan& plan, std::vector<std::int64_t> balanced);

  const Job& job_;
  const FixedChoices& fixed_;
  LayerKinds kinds_;
  std::optional<TimeModel> times_;
  std::optional<MemoryModel> memory_;
  std::map<std::array<std::int64_t, 5>, PartCosts> costs_;  // by tp, cp, ep, etp, and, where nodes
                                                            // are unlike, pp
  std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> balanced_;  // by chunks and costs
};

}  // namespace trireme::planner
