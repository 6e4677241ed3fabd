// What another framework's program holds, from the closed form's own counts (planner/cost), for the
// passes that write layers and ends by their modelled work: so liveness of the program is the
// memory of the plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/cost/stage_memory.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner::lowering {

// Elements in 16 bits of a buffer of `bytes`; a buffer has one at least.
inline std::int64_t compute_elements(double bytes) {
  constexpr double kElementBytes = 2;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / kElementBytes));
}

class HeldMemory {
 public:
  // `plan` as it was asked for. Both must outlive this.
  HeldMemory(const Job& job, const Plan& plan)
      : layers_(rank_layers(job, plan)),
        context_(stage_context(job, plan, layers_)),
        split_(chunk_layers(job, plan)) {}
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;
  HeldMemory(HeldMemory&&) = delete;
  HeldMemory& operator=(HeldMemory&&) = delete;
  ~HeldMemory() = default;

  [[nodiscard]] const LayerMemory& layer(bool sparse) const {
    return sparse ? layers_.sparse : layers_.dense;
  }
  // Bytes that an extra prediction module keeps beside its layer.
  [[nodiscard]] double prediction_kept() const { return layers_.prediction_kept; }
  // Of the loss and its logits.
  [[nodiscard]] const StageContext& context() const { return context_; }
  [[nodiscard]] double head_matrix() const { return layers_.parameters.head_matrix; }
  // Bytes of a stage that are there all the time and that no op names: libraries' workspaces,
  // copies of weights.
  [[nodiscard]] double workspaces(std::int64_t stage) const {
    return workspace_bytes(context_, split_, stage);
  }

 private:
  RankLayers layers_;
  StageContext context_;
  std::vector<ChunkLayers> split_;
};

}  // namespace trireme::planner::lowering
