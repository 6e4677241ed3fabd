// What search and the simulator ask of step time besides the estimate: bounds, and stages.
#include <algorithm>

#include "planner/cost/time_state.h"
#include "planner/stages.h"

namespace trireme::planner {

double TimeModel::placed_bound(const Plan& plan) {
  State& s = *state_;
  const LayerSet& set = s.layer_set(plan);
  const std::vector<RankClass>& classes = s.classes(plan);
  StageTotals totals;
  s.stage_seconds.clear();
  for (const RankClass& rank : classes) {
    const RankTimes times = s.rank_times(plan, set, rank);
    const double forward = times.forward_total();
    const double backward = times.backward_total();
    const auto count = static_cast<double>(rank.count);
    s.stage_seconds.push_back({forward, backward});
    totals.sum += count * (forward + backward);
    totals.sum_forward += count * forward;
    totals.sum_backward += count * backward;
    totals.slowest_forward = std::max(totals.slowest_forward, forward);
    totals.slowest_backward = std::max(totals.slowest_backward, backward);
    if (forward + backward > totals.slowest) {
      totals.slowest = forward + backward;
      totals.weight_gradient = times.weight_gradient + times.weight_tensor;
    }
  }
  totals.bottleneck = s.bottleneck(plan, classes);
  return pipeline_time(plan, totals, HopTimes{}).total + s.fit.step_seconds;
}

double TimeModel::lower_bound(const Plan& plan) {
  Plan inner = plan;
  // Either the tensor or the context axis is inside the other; both are never nearer than this.
  inner.order = {Axis::kTensor, Axis::kContext, Axis::kSharded, Axis::kReplica, Axis::kPipeline};
  const double tensor_first = placed_bound(inner);
  if (plan.context == 1 || plan.tensor == 1) {
    return tensor_first;
  }
  inner.order = {Axis::kContext, Axis::kTensor, Axis::kSharded, Axis::kReplica, Axis::kPipeline};
  return std::min(tensor_first, placed_bound(inner));
}

std::vector<TimeModel::StageTimes> TimeModel::stage_times(const Plan& plan) {
  State& s = *state_;
  const LayerSet& set = s.layer_set(plan);
  std::vector<StageTimes> stages(static_cast<std::size_t>(plan.pipeline));
  for (std::size_t r = 0; r < stages.size(); ++r) {
    // The class of a rank is found by its chunks again: stage_times is not on search's path.
    RankClass rank;
    rank.layers.assign(s.kinds.first_layer.size(), 0);
    rank.recomputed = rank.layers;
    const std::vector<Chunk> chunks = chunks_of(s.job, plan);
    for (std::size_t c = r; c < chunks.size(); c += stages.size()) {
      rank.embedding = rank.embedding || chunks[c].embedding;
      rank.head = rank.head || chunks[c].head;
      std::int64_t left = plan.recompute == Recompute::kFull && plan.recompute_layers >= 0
                              ? plan.recompute_layers
                              : chunks[c].last - chunks[c].first;
      for (std::size_t kind = 0; kind < s.kinds.up_to.size(); ++kind) {
        const std::int64_t count = s.kinds.up_to[kind][static_cast<std::size_t>(chunks[c].last)] -
                                   s.kinds.up_to[kind][static_cast<std::size_t>(chunks[c].first)];
        rank.layers[kind] += count;
        rank.recomputed[kind] += std::min(count, left);
        left -= std::min(count, left);
      }
    }
    const RankTimes times = s.rank_times(plan, set, rank);
    stages[r] = {.forward = times.forward_total(),
                 .input_gradient = times.backward_total() - times.weight_gradient - times.recompute,
                 .weight_gradient = times.weight_gradient,
                 .recompute = times.recompute,
                 .exposed_tensor_parallel_forward = times.tensor_forward,
                 .exposed_tensor_parallel_backward = times.tensor_backward};
  }
  return stages;
}

}  // namespace trireme::planner
