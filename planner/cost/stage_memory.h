// Memory of one pipeline stage at each moment that can be its peak.
#pragma once

#include <vector>

#include "planner/cost/adapters.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/memory.h"
#include "planner/cost/offload_cost.h"
#include "planner/cost/rank_parameters.h"
#include "planner/cost/state_memory.h"

namespace trireme::planner {

// PyTorch's states: the stored parameter is the master, gradients are memory of the step.
bool has_torch_states(const Job& job);

// ZeRO-1 and 2 have no buffer for gradients in the model's own type: they come into being with the
// step's only backward, as PyTorch's do, and are summed in place (DeepSpeed runtime/zero/
// stage_1_and_2.py: averaged_gradients and grads_in_partition are made in backward, gone after the
// step). ZeRO-3's partitions lie in one for the whole run.
bool makes_zero_gradients(const Job& job, const Plan& plan);

// Layers of one chunk by kind.
struct ChunkLayers {
  double dense = 0, sparse = 0;
  double frozen_dense = 0, frozen_sparse = 0;  // of them, layers that are not trained
  bool embedding = false, head = false;
  double prediction = 0;  // of them, layers of the extra prediction modules
  [[nodiscard]] double trained() const { return dense + sparse - frozen_dense - frozen_sparse; }
  friend bool operator==(const ChunkLayers&, const ChunkLayers&) = default;
};
std::vector<ChunkLayers> chunk_layers(const Job& job, const Plan& plan);
// Whether two ranks have the same chunks.
bool same_chunks(const Plan& plan, const std::vector<ChunkLayers>& split, std::int64_t a,
                 std::int64_t b);
// The same of all ranks of a plan, each beside the one before.
struct StageSplit {
  std::vector<ChunkLayers> chunks;  // chunk_layers of the plan
  std::vector<bool> as_before;      // by rank
};
StageSplit stage_split(const Job& job, const Plan& plan);

// What depends on the cut of a layer but not on the pipeline.
struct RankLayers {
  RankParameters parameters;
  AdapterElements adapters;
  LayerMemory dense, sparse;
  double prediction_kept = 0;    // what an extra prediction module keeps beside its layer
  double fp8_weight_copies = 0;  // bytes an element of a layer's linear weights
};
RankLayers rank_layers(const Job& job, const Plan& plan);

// What depends on the plan but not on the stage.
struct StageContext {
  const Job* job = nullptr;
  const Plan* plan = nullptr;
  const RankLayers* layers = nullptr;
  StateBytes dense_state, expert_state;  // of what is trained
  // Bytes of a frozen element: of linear layers, of routed experts, of everything else.
  double frozen_linear = 0, frozen_experts = 0, frozen_other = 0;
  double tokens = 0;          // of a micro-batch on this rank, before sequence parallelism
  double sequence_scale = 1;  // 1 / tensor when sequence parallel
  double vocabulary = 0;      // logits of a token that the rank keeps
  double logit_peak = 0, logit_kept = 0, logit_backward = 0;  // bytes of one micro-batch's logits
  double logit_block = 0;         // bytes of the largest tensor of the loss
  double head_tokens = 0;         // bytes around the head beside the logits, at the loss
  double unsharded_gradient = 0;  // bytes an element that wait for a deferred reduction
  ResidentShares resident;        // of the states, where some are offloaded
  bool gathers = false;           // parameters are sharded and gathered unit by unit
  double constant = 0;            // workspaces
};
StageContext stage_context(const Job& job, const Plan& plan, const RankLayers& layers);

// Bytes of libraries' workspaces and of copies of weights, there all the time.
double workspace_bytes(const StageContext& context, const std::vector<ChunkLayers>& split,
                       std::int64_t rank);

// Bytes of buffers for communication that are there all the time: receive buffers and buckets
// beyond the message, the unit's gradients or the bucket's part that an op has at hand.
double lasting_communication_bytes(const StageContext& context,
                                   const std::vector<ChunkLayers>& split, std::int64_t rank);

// The same of buffers that a backward allocates (planner/cost/zero_memory.h, BackwardBuckets).
double backward_communication_bytes(const StageContext& context,
                                    const std::vector<ChunkLayers>& split, std::int64_t rank);
bool backward_communication_waits(const StageContext& context);
bool backward_communication_at_loss(const StageContext& context);

// Bytes of the 16-bit copies of weights that autocast keeps through a step; 0 where they are
// gathered or stored so.
double weight_cast_bytes(const StageContext& context, const std::vector<ChunkLayers>& split,
                         std::int64_t rank);

StageMemory stage_memory(const StageContext& context, const std::vector<ChunkLayers>& split,
                         std::int64_t rank);
// The same of a rank whose contents_of (planner/cost/stage_contents.h) is known.
struct StageContents;
StageMemory stage_memory(const StageContext& context, const StageContents& contents,
                         std::int64_t rank);

}  // namespace trireme::planner
