// Which pipeline ranks of a plan do the same work, so that one of each class is timed.
#include <algorithm>

#include "planner/cost/time_state.h"
#include "planner/plan/shape.h"
#include "planner/plan/stage_groups.h"
#include "planner/plan/stages.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

void TimeModel::State::add_chunk(const Plan& plan, const Chunk& chunk, RankClass& rank) const {
  rank.layers.resize(kinds.first_layer.size(), 0);
  rank.recomputed.resize(kinds.first_layer.size(), 0);
  rank.embedding = rank.embedding || chunk.embedding;
  rank.head = rank.head || chunk.head;
  std::int64_t left = plan.recompute == Recompute::kFull && plan.recompute_layers >= 0
                          ? plan.recompute_layers
                          : chunk.last - chunk.first;
  const auto first = static_cast<std::size_t>(chunk.first);
  const auto last = static_cast<std::size_t>(chunk.last);
  for (std::size_t kind = 0; kind < kinds.up_to.size(); ++kind) {
    const std::int64_t count = kinds.up_to[kind][last] - kinds.up_to[kind][first];
    rank.layers[kind] += count;
    const std::int64_t again = std::min(count, left);
    rank.recomputed[kind] += again;
    left -= again;
  }
}

RankClass TimeModel::State::contents_of(const Plan& plan, const std::vector<Chunk>& chunks,
                                        std::int64_t rank) const {
  RankClass contents;
  double held = 0;
  for (std::int64_t place = 0; place < plan.virtual_pipeline; ++place) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(chunk_of_rank(plan, rank, place))];
    add_chunk(plan, chunk, contents);
    contents.chunks.push_back({.share = static_cast<double>(chunk.last - chunk.first)});
    held += contents.chunks.back().share;
  }
  for (ChunkShare& one : contents.chunks) {
    one.share = held > 0 ? one.share / held : 1 / static_cast<double>(plan.virtual_pipeline);
  }
  contents.groups = groups_of_stage(job.cluster, plan, rank);
  return contents;
}

namespace {

// Places between the first and the last, of which each class has the same share in neighbours.
void join_alike_places(std::vector<RankClass>& classes) {
  const std::size_t places = classes.front().chunks.size();
  std::vector<std::size_t> kept;
  for (std::size_t place = 0; place < places; ++place) {
    const bool inner = kept.size() > 1 && place + 1 < places;
    if (inner && std::ranges::all_of(classes, [&](const RankClass& one) {
          return one.chunks[place].share == one.chunks[kept.back()].share;
        })) {
      for (RankClass& one : classes) {
        one.chunks[kept.back()].places += 1;
      }
    } else {
      kept.push_back(place);
    }
  }
  for (RankClass& one : classes) {
    for (std::size_t k = 0; k < kept.size(); ++k) {
      one.chunks[k] = one.chunks[kept[k]];
    }
    one.chunks.resize(kept.size());
  }
}

}  // namespace

std::vector<RankClass> TimeModel::State::split(const Plan& plan) const {
  const std::vector<Chunk> chunks = chunks_of(job, plan);
  std::vector<RankClass> ranks;
  for (std::int64_t rank = 0; rank < plan.pipeline; ++rank) {
    ranks.push_back(contents_of(plan, chunks, rank));
  }
  std::vector<RankClass> classes;
  std::vector<std::size_t> of_rank;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto known = std::find_if(classes.begin(), classes.end(),
                                    [&](const RankClass& other) { return same(other, ranks[r]); });
    // In a V each is asked by its place (v_seconds).
    if (known != classes.end() && !is_in_v(plan.schedule)) {
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
  join_alike_places(classes);
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
      .in_v = is_in_v(plan.schedule) ? 1 : 0,
      .recompute_layers = plan.recompute == Recompute::kFull ? plan.recompute_layers + 2 : 0,
      .split = number_of_split(plan.stage_layers),
      .prediction_apart = plan.prediction_apart ? 1 : 0};
  if (const std::vector<RankClass>* found = splits.find(key)) {
    return *found;
  }
  return splits.insert(key, split(plan));
}

}  // namespace trireme::planner
