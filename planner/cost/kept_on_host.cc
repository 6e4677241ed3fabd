#include "planner/cost/kept_on_host.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/layer_memory.h"
#include "planner/cost/rank_parameters.h"
#include "planner/plan/kept_on_host.h"

namespace trireme::planner {
namespace {

// Bytes that one layer sends down for one micro-batch: all that it keeps, or its input alone where
// it is repeated.
struct MovedBytes {
  double kept = 0, repeated = 0;
};

MovedBytes moved_bytes(const Job& job, const Plan& plan) {
  const std::int64_t inner = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  const RankParameters parameters = rank_parameters(job, {plan.tensor, plan.expert, inner});
  const LayerMemory layer =
      layer_memory(job, plan, job.model.layers - 1,
                   job.model.moe ? parameters.sparse_layer : parameters.dense_layer);
  return {layer.kept, layer.checkpoint};
}

// Layers of one chunk, first to last: the frozen ones below all that trains keep nothing, those
// after them go to the host, the rest stays.
struct ChunkOnHost {
  std::int64_t frozen = 0, moved = 0, stay = 0;
  std::int64_t repeated = 0;  // the first ones
};

ChunkOnHost chunk_on_host(const Job& job, const Plan& plan) {
  const auto chunks = static_cast<double>(plan.pipeline * plan.virtual_pipeline);
  const std::int64_t layers =
      std::max<std::int64_t>(1, std::lround(static_cast<double>(job.model.layers) / chunks));
  // Of a pipeline the chunk that has most to move sets the pace: one without frozen layers.
  const std::int64_t frozen =
      chunks > 1 ? 0 : std::min<std::int64_t>(layers, job.training.frozen_layers);
  const std::int64_t moved =
      std::max<std::int64_t>(0, layers_on_host(job.offload, layers) - frozen);
  const bool some = plan.recompute == Recompute::kFull;
  const std::int64_t repeated = !some                       ? 0
                                : plan.recompute_layers < 0 ? layers
                                                            : plan.recompute_layers;
  return {frozen, moved, layers - frozen - moved, repeated};
}

// What the copies of one visit of a chunk add to its forward and backward, of `forward` and
// `backward` seconds a layer: a copy down begins behind its layer's forward, and the layer after
// waits until no more than two are on their way; one comes up beside the backward of the layer
// above, not before it has gone down.
double added_seconds(const ChunkOnHost& chunk, const MovedBytes& bytes, double rate, double forward,
                     double backward) {
  if (chunk.moved == 0) {
    return 0;
  }
  const auto way = [&](std::int64_t moved) {
    return (chunk.frozen + moved < chunk.repeated ? bytes.repeated : bytes.kept) / rate;
  };
  double now = static_cast<double>(chunk.frozen) * forward;
  double down = 0;    // when the last copy down ends
  double before = 0;  // and those before it
  double oldest = 0;
  for (std::int64_t i = 0; i < chunk.moved; ++i) {
    now += forward;
    oldest = before;
    before = down;
    down = std::max(now, down) + way(i);
    now = std::max(now, oldest);
  }
  const double above = std::max(0.0, static_cast<double>(chunk.stay - 1)) * backward;
  now += static_cast<double>(chunk.stay) * forward + above;
  double up = std::max(now, down) + way(chunk.moved - 1);  // beside the lowest layer that stays
  for (std::int64_t i = chunk.moved - 1; i >= 0; --i) {
    now = std::max(now + backward, up);
    up = i > 0 ? now + way(i - 1) : up;
  }
  now += backward;
  const double layers = static_cast<double>(chunk.frozen + chunk.moved + chunk.stay);
  // Nothing where all is hidden, which sums of doubles miss by their last digit.
  return std::max(
      0.0, now - layers * forward - static_cast<double>(chunk.moved + chunk.stay) * backward);
}

}  // namespace

bool keeps_on_host(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.offload.activations == OffloadTo::kHost;
}

HostWays ways_of_kept(std::int64_t stages) {
  return stages > 1 ? HostWays::kBoth : HostWays::kOne;
}

double kept_on_host_seconds(const Job& job, const Plan& plan, const HostMachine& host,
                            double forward, double backward) {
  const ChunkOnHost chunk = chunk_on_host(job, plan);
  const auto visits = static_cast<double>(plan.virtual_pipeline);
  const auto layers = static_cast<double>(chunk.frozen + chunk.moved + chunk.stay);
  const double trained = std::max(1.0, layers - static_cast<double>(chunk.frozen));
  const double rate =
      ways_of_kept(plan.pipeline) == HostWays::kBoth ? host.both_rate : host.link_rate;
  const double each =
      visits * added_seconds(chunk, moved_bytes(job, plan), rate, forward / (visits * layers),
                             backward / (visits * trained));
  // What makes every pass longer makes the pipeline's bubble longer too.
  const double bubble =
      static_cast<double>(plan.pipeline - 1) / static_cast<double>(plan.virtual_pipeline);
  return (static_cast<double>(plan.micro_batches) + bubble) * each;
}

}  // namespace trireme::planner
