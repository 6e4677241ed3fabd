// Which pipeline ranks of a plan do the same work, so that one of each class is timed.
#include <algorithm>

#include "planner/cost/time_state.h"
#include "planner/plan/shape.h"
#include "planner/plan/stage_groups.h"
#include "planner/plan/stages.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

std::vector<RankClass> TimeModel::State::split(const Plan& plan) const {
  const std::vector<Chunk> chunks = chunks_of(job, plan);
  std::vector<RankClass> ranks(static_cast<std::size_t>(plan.pipeline));
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    RankClass& rank = ranks[c % ranks.size()];
    rank.layers.resize(kinds.first_layer.size(), 0);
    rank.recomputed.resize(kinds.first_layer.size(), 0);
    rank.embedding = rank.embedding || chunks[c].embedding;
    rank.head = rank.head || chunks[c].head;
    std::int64_t left = plan.recompute == Recompute::kFull && plan.recompute_layers >= 0
                            ? plan.recompute_layers
                            : chunks[c].last - chunks[c].first;
    const auto first = static_cast<std::size_t>(chunks[c].first);
    const auto last = static_cast<std::size_t>(chunks[c].last);
    for (std::size_t kind = 0; kind < kinds.up_to.size(); ++kind) {
      const std::int64_t count = kinds.up_to[kind][last] - kinds.up_to[kind][first];
      rank.layers[kind] += count;
      const std::int64_t again = std::min(count, left);
      rank.recomputed[kind] += again;
      left -= again;
    }
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].groups = groups_of_stage(job.cluster, plan, static_cast<std::int64_t>(r));
  }
  std::vector<RankClass> classes;
  std::vector<std::size_t> of_rank;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto known = std::find_if(classes.begin(), classes.end(),
                                    [&](const RankClass& other) { return same(other, ranks[r]); });
    if (known != classes.end()) {
      ++known->count;
      known->last_rank = static_cast<std::int64_t>(r);
      of_rank.push_back(static_cast<std::size_t>(known - classes.begin()));
      continue;
    }
    ranks[r].count = 1;
    ranks[r].last_rank = static_cast<std::int64_t>(r);
    of_rank.push_back(classes.size());
    classes.push_back(ranks[r]);
  }
  for (RankClass& one : classes) {
    one.before.assign(classes.size(), 0);
    one.after.assign(classes.size(), 0);
    for (std::size_t r = 0; r < of_rank.size(); ++r) {
      const auto rank = static_cast<std::int64_t>(r);
      one.before[of_rank[r]] += rank < one.last_rank ? 1 : 0;
      one.after[of_rank[r]] += rank > one.last_rank ? 1 : 0;
    }
  }
  return classes;
}

std::int64_t TimeModel::State::number_of_split(const std::vector<std::int64_t>& stage_layers) {
  if (stage_layers.empty()) {
    return 0;
  }
  if (last_split == nullptr || last_split->first != stage_layers) {
    const auto next = static_cast<std::int64_t>(split_numbers.size()) + 1;
    last_split = &*split_numbers.try_emplace(stage_layers, next).first;
  }
  return last_split->second;
}

const std::vector<RankClass>& TimeModel::State::classes(const Plan& plan) {
  // Stages that are the outermost axis are on the same nodes whatever the other degrees are.
  if (topologies::has_unlike_nodes(job.cluster) && plan.order.back() != Axis::kPipeline) {
    return unlike_split = split(plan);
  }
  const SplitKey key{
      .pipeline = plan.pipeline,
      .virtual_pipeline = plan.virtual_pipeline,
      .recompute_layers = plan.recompute == Recompute::kFull ? plan.recompute_layers + 2 : 0,
      .split = number_of_split(plan.stage_layers),
      .prediction_apart = plan.prediction_apart ? 1 : 0};
  if (const std::vector<RankClass>* found = splits.find(key)) {
    return *found;
  }
  return splits.insert(key, split(plan));
}

}  // namespace trireme::planner
