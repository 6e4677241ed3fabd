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
  // Bytes an element of a unit, on this rank.
  [[nodiscard]] const StateBytes& states(bool experts) const {
    return experts ? context_.expert_state : context_.dense_state;
  }
  // Whether a rank keeps all of a unit's weights as it computes with them.
  [[nodiscard]] bool keeps_whole_weights() const {
    const Sharding asked = context_.plan->sharding;
    return asked != Sharding::kFull && (!has_torch_states() || asked == Sharding::kNone);
  }
  [[nodiscard]] bool has_torch_states() const { return planner::has_torch_states(*context_.job); }
  // Whether gradients are there between steps, and not made in backward.
  [[nodiscard]] bool gradients_last() const {
    return !has_torch_states() && !makes_zero_gradients(*context_.job, *context_.plan);
  }
  // PyTorch's pipelines hand out what the last stage gave for every micro-batch when the step ends.
  [[nodiscard]] bool keeps_outputs() const {
    return has_torch_states() && context_.plan->pipeline > 1;
  }
  // Bytes of a stage that are there all the time and that no op names: libraries' workspaces,
  // copies of weights; buffers for communication.
  [[nodiscard]] double workspaces(std::int64_t stage) const {
    return workspace_bytes(context_, split_, stage);
  }
  [[nodiscard]] double communication(std::int64_t stage) const {
    return lasting_communication_bytes(context_, split_, stage);
  }
  // Bytes of such buffers that a backward allocates, whether it does so before the loss, and
  // whether they wait for the next one's.
  [[nodiscard]] double backward_communication(std::int64_t stage) const {
    return backward_communication_bytes(context_, split_, stage);
  }
  [[nodiscard]] bool backward_communication_at_loss() const {
    return planner::backward_communication_at_loss(context_);
  }
  [[nodiscard]] bool backward_communication_waits() const {
    return planner::backward_communication_waits(context_);
  }
  // Bytes of copies of weights that live through forward and backward.
  [[nodiscard]] double weight_casts(std::int64_t stage) const {
    return weight_cast_bytes(context_, split_, stage);
  }

 private:
  RankLayers layers_;
  StageContext context_;
  std::vector<ChunkLayers> split_;
};

}  // namespace trireme::planner::lowering
