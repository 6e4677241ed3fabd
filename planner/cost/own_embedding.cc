#include "planner/cost/own_embedding.h"

#include "planner/cost/layer_times.h"

namespace trireme::planner::own {
namespace {

// More micro-batches than are under way at once.
bool has_forwards_to_come(const Plan& plan) {
  return plan.schedule != Schedule::kGpipe && plan.micro_batches > plan.pipeline;
}

}  // namespace

double staying_embedding(const Plan& plan, const Stage& stage, const Whole& whole) {
  const bool copied = plan.sharded > 1 || stage.trained.embedding > 0;
  return whole.stays && copied && stage.embedding && has_forwards_to_come(plan)
             ? kCompute * stage.units.embedding
             : 0;
}

MemoryItems worst_of_embedding(const EmbeddingMoment& at, const MemoryItems& first,
                               const MemoryItems& peak) {
  const auto& [plan, shared, stage, held, whole, states] = at;
  if (whole.embedding_gradient == 0 || plan.pipeline == 1 || plan.micro_batches == 1 ||
      ends_with_weights(plan)) {
    return peak;
  }
  const Tensors& t = shared.tensors;
  const double one = kept_layers(plan, shared.layer, t, stage.last_chunk_layers, 0);
  MemoryItems next = first;
  next.activations -= one;
  next.gradients += whole.embedding_gradient;
  next.gathered_parameters -= whole.next_embedding + staying_embedding(plan, stage, whole);
  MemoryItems worst = next.total() > peak.total() ? next : peak;
  if (has_forwards_to_come(plan)) {
    MemoryItems forward = states;
    forward.activations = held.kept - one + 2 * t.stream + shared.layer.forward;
    forward.gradients += whole.embedding_gradient + whole.layer_gradient;
    forward.gathered_parameters = whole.layer_parameters - whole.next_embedding;
    // Of chunks in turn the forward is another chunk's.
    const bool copied =
        plan.sharding == Sharding::kFull && (whole.stays || plan.virtual_pipeline == 1);
    forward.gathered_parameters += copied ? kCompute * stage.units.embedding : 0;
    forward.communication = held.exchanges;
    worst = forward.total() > worst.total() ? forward : worst;
  }
  return worst;
}

}  // namespace trireme::planner::own
