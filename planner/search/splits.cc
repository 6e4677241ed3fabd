#include "planner/search/splits.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/rules.h"
#include "planner/plan/stages.h"
#include "planner/search/lean_split.h"
#include "topologies/node_groups.h"

namespace trireme::planner {
namespace {

// Costs that differ by less than this part of a layer are balanced alike.
constexpr double kSteps = 32;
constexpr double kSpeedSteps = 1000;  // of the first stage's speed
// No model comes near; a list for every split of a deeper one would take the square of its layers.
constexpr std::int64_t kLayersMax = 512;
constexpr std::int64_t kChunksMax = 256;
// Fewer stages hold nearly as many micro-batches each.
constexpr std::int64_t kLeanStages = 4;

std::vector<std::int64_t> layers_of(const std::vector<Chunk>& chunks) {
  std::vector<std::int64_t> layers;
  layers.reserve(chunks.size());
  for (const Chunk& chunk : chunks) {
    layers.push_back(chunk.own_layers());
  }
  return layers;
}

// Cards differ in the speed of layers, ends and optimizer alike, which one number a stage does not
// tell: splits with one or two layers moved from a stage to the next, or back.
void add_neighbours(const std::vector<std::int64_t>& layers, std::vector<ChunkSplit>& splits) {
  constexpr std::size_t kStagesMost = 8;
  for (std::size_t c = 0; c + 1 < layers.size() && layers.size() <= kStagesMost; ++c) {
    for (const std::int64_t moved : {-2, -1, 1, 2}) {
      std::vector<std::int64_t> other = layers;
      other[c] += moved;
      other[c + 1] -= moved;
      const bool first = c == 0;
      const bool last = c + 2 == layers.size();
      if (other[c] >= (first ? 0 : 1) && other[c + 1] >= (last ? 0 : 1)) {
        splits.push_back({std::move(other)});
      }
    }
  }
}

}  // namespace

std::vector<std::int64_t> chunk_counts(const Job& job, std::int64_t pipeline, bool all) {
  const std::int64_t layers = job.model.layers;
  const auto even = [&](std::int64_t chunks) {
    return layers % chunks == 0 || (layers + 2) % chunks == 0;
  };
  std::vector<std::int64_t> counts;
  std::int64_t last_size = 0;
  for (std::int64_t count = 2; count * pipeline <= layers + 2; ++count) {
    const std::int64_t chunks = count * pipeline;
    const std::int64_t size = (layers + chunks - 1) / chunks;
    if (all || (even(pipeline) ? even(chunks) : size != last_size)) {
      counts.push_back(count);
    }
    last_size = size;
  }
  return counts;
}

StageSplits::StageSplits(const Job& job, const FixedChoices& fixed)
    : job_(job), fixed_(fixed), kinds_(layer_kinds(job)) {}

std::vector<ChunkSplit> StageSplits::of(const Plan& plan) {
  if (!fixed_.stage_layers.empty()) {
    return {{fixed_.stage_layers}};
  }
  std::vector<ChunkSplit> splits;
  const bool even = splits_evenly(job_, plan);
  const bool free = takes_any_split(job_);
  if (even || !free) {
    splits.emplace_back();
  }
  if (free) {
    std::vector<std::int64_t> layers = balanced(plan);
    std::vector<std::int64_t> leaner = layers.empty() ? layers : lean(plan, layers);
    if (topologies::has_unlike_nodes(job_.cluster)) {
      add_neighbours(layers, splits);
    }
    if (!layers.empty() && (!even || layers != layers_of(chunks_of(job_, plan)))) {
      splits.push_back({std::move(layers)});
    }
    if (!leaner.empty()) {
      splits.push_back({std::move(leaner)});
    }
    if (std::vector<std::int64_t> apart = balanced_apart(plan); !apart.empty()) {
      splits.push_back({std::move(apart), true});
    }
  }
  if (splits.empty()) {
    splits.emplace_back();  // whose rule then says why
  }
  return splits;
}

std::vector<std::int64_t> StageSplits::balanced(const Plan& plan) {
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  if (chunks > job_.model.layers + 2 || chunks > kChunksMax || job_.model.layers > kLayersMax) {
    return {};
  }
  PartCosts costs = costs_of(plan);
  for (std::int64_t module = 0; module < job_.model.multi_token_layers; ++module) {
    costs.head += costs.layers.back();  // extra prediction modules stand with the head
    costs.layers.pop_back();
  }
  const double layer = costs.layers.back();
  const auto step = [&](double cost) { return std::llround(kSteps * cost / layer); };
  std::vector<std::int64_t> key = {plan.pipeline, plan.virtual_pipeline,
                                   is_in_v(plan.schedule) ? 1 : 0, step(costs.embedding),
                                   step(costs.head)};
  for (const std::int64_t first : kinds_.first_layer) {
    if (first < job_.model.layers) {  // the modules' are in the head's
      key.push_back(step(costs.layers[static_cast<std::size_t>(first)]));
    }
  }
  for (const double speed : costs.speeds) {
    key.push_back(std::llround(kSpeedSteps * speed / costs.speeds.front()));
  }
  const auto found = balanced_.find(key);
  return found != balanced_.end()
             ? found->second
             : balanced_.emplace(key, balanced_split(costs, plan)).first->second;
}

// By memory too, of the plan with one sequence a micro-batch and its optimizer sharded; with what
// is recomputed only where that is fixed.
std::vector<std::int64_t> StageSplits::lean(const Plan& plan, std::vector<std::int64_t> balanced) {
  if (plan.pipeline < kLeanStages) {
    return {};
  }
  Plan one = plan;
  one.stage_layers = std::move(balanced);
  one.prediction_apart = false;
  one.micro_batch = 1;
  one.micro_batches = std::max<std::int64_t>(1, job_.global_batch / plan.data_parallel());
  one.recompute = fixed_.recompute.value_or(Recompute::kNone);
  one.sharded = plan.data_parallel();
  one.replicas = 1;
  one.sharding = one.sharded > 1 ? Sharding::kOptimizer : Sharding::kNone;
  if (check_plan(job_, one)) {
    return {};
  }
  if (!memory_) {
    memory_.emplace(job_);
  }
  return lean_split(one, costs_of(plan), *memory_);
}

// Extra prediction modules on the chunk before the head's, which then holds nothing else; empty
// where that is not what balances.
std::vector<std::int64_t> StageSplits::balanced_apart(const Plan& plan) {
  const std::int64_t modules = job_.model.multi_token_layers;
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  if (modules == 0 || job_.model.tied_embeddings || !is_megatron(job_.framework) ||
      chunks > job_.model.layers + 2 || chunks > kChunksMax || job_.model.layers > kLayersMax) {
    return {};
  }
  std::vector<std::int64_t> layers = balanced_split(costs_of(plan), plan);
  if (layers.back() != 0 || layers[layers.size() - 2] < modules) {
    return {};
  }
  layers[layers.size() - 2] -= modules;
  return layers;
}

// Of a micro-batch of one sequence; with what is recomputed only where that is fixed.
const PartCosts& StageSplits::costs_of(const Plan& plan) {
  const bool unlike = topologies::has_unlike_nodes(job_.cluster);
  const std::array<std::int64_t, 5> cut = {plan.tensor, plan.context, plan.expert,
                                           plan.expert_tensor, unlike ? plan.pipeline : 0};
  const auto found = costs_.find(cut);
  if (found != costs_.end()) {
    return found->second;
  }
  if (!times_) {
    times_.emplace(job_);
  }
  Plan one = plan;
  one.micro_batch = 1;
  one.recompute = fixed_.recompute.value_or(Recompute::kNone);
  return costs_.emplace(cut, times_->part_seconds(one)).first->second;
}

}  // namespace trireme::planner
