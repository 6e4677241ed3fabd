#include "planner/cost/own_stages.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/cost/in_flight.h"
#include "planner/cost/own_workspaces.h"
#include "planner/cost/pipeline_time.h"
#include "planner/plan/shape.h"

namespace trireme::planner::own {

bool differ_in_sharding_only(const Plan& a, const Plan& b) {
  const auto rest = [](const Plan& plan) {
    return std::tie(plan.tensor, plan.pipeline, plan.virtual_pipeline, plan.micro_batch,
                    plan.micro_batches, plan.context, plan.sequence_parallel, plan.schedule,
                    plan.recompute, plan.recompute_layers, plan.recompute_modules,
                    plan.stage_layers);
  };
  return rest(a) == rest(b);
}

namespace {

// What lasts between steps is alike.
bool last_alike(const Stage& a, const Stage& b) {
  return a.layers == b.layers && a.trained_layers == b.trained_layers &&
         a.last_chunk_layers == b.last_chunk_layers && a.embedding == b.embedding &&
         a.head == b.head;
}

// Buffers of exchanges between stages that are alive in a backward: what the next action starts
// from, already received, and what the action before sent.
double exchange_bytes(const Plan& plan, const Tensors& t, bool blocking, std::int64_t rank) {
  if (plan.pipeline == 1) {
    return 0;
  }
  const bool wraps = plan.virtual_pipeline > 1;
  const double received = (rank > 0 || wraps) && !(blocking && !wraps) ? t.stream : 0;
  const double sent = (rank + 1 < plan.pipeline || wraps) && !blocking ? t.stream : 0;
  // With as many forwards as the warm-up has, no forward follows the first backward.
  const bool forward_follows =
      plan.schedule != Schedule::kGpipe && plan.micro_batches > plan.pipeline - rank;
  return (forward_follows ? received : 0) + sent + held_sends(plan, rank) * t.stream;
}

// Adds what ranks [first, end) hold, which have the chunks of the first one.
void hold(const Plan& plan, const std::vector<ChunkLayers>& split, const Shared& shared,
          std::int64_t first, std::int64_t end, std::vector<ChunkKept>& chunks,
          std::vector<Held>& held) {
  keep_chunks(plan, split, shared.tensors, shared.layer, first, chunks);
  hold_ranks(plan, chunks, shared.layer, first, end, held);
  for (auto one = held.end() - (end - first); one != held.end(); ++one) {
    one->exchanges = exchange_bytes(plan, shared.tensors, shared.blocking, first++);
  }
}

}  // namespace

Held held_of(const Plan& plan, const std::vector<ChunkLayers>& split, const Shared& shared,
             std::int64_t rank) {
  std::vector<ChunkKept> chunks;
  std::vector<Held> held;
  hold(plan, split, shared, rank, rank + 1, chunks, held);
  return held.front();
}

Shared shared_of(const Job& job, const Plan& plan) {
  const Shape shape = shape_of(job, plan);
  Shared shared;
  shared.units = units_of(job, shape);
  shared.trained = trained_units(job, shape, shared.units);
  shared.tokens = static_cast<double>(shape.tokens);
  shared.workspaces = own_workspaces(job, plan, shape);
  shared.tensors = tensors_of(job, shape);
  shared.reads = reads_of(job, shape);
  shared.layer = layer_bytes(job, plan, shared.tensors, shared.reads);
  shared.blocking = exchanges_block(job.framework, plan);
  return shared;
}

void share(const Job& job, const Plan& plan, const StageSplit& split, Shared& shared) {
  Shared fresh = shared_of(job, plan);
  fresh.runs = std::move(shared.runs);  // their memory is used again
  fresh.held = std::move(shared.held);
  fresh.at_hand = std::move(shared.at_hand);
  shared = std::move(fresh);
  shared.runs.clear();
  shared.held.clear();
  for (std::int64_t rank = 0, end = 0; rank < plan.pipeline; rank = end) {
    const auto next = std::find(split.as_before.begin() + rank + 1, split.as_before.end(), false);
    end = next - split.as_before.begin();
    hold(plan, split.chunks, shared, rank, end, shared.at_hand, shared.held);
    const Stage stage = stage_of(plan, split.chunks, shared.units, shared.trained, rank);
    if (rank == 0 || !last_alike(stage, shared.runs.back().stage)) {
      shared.runs.push_back({stage, rank, rank});
    }
    shared.runs.back().end = end;
  }
}

}  // namespace trireme::planner::own
