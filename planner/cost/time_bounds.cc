// What search and the simulator ask of step time besides the estimate: bounds, and stages.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "planner/cost/product_time.h"
#include "planner/cost/time_state.h"
#include "planner/plan/stage_groups.h"
#include "planner/plan/stages.h"

namespace trireme::planner {

namespace {

// Layers' times see nothing else of an order.
void set_placement(const LayerPlacement& placement, Plan& plan) {
  plan.sharded = placement.inner;
  plan.replicas = placement.between;
  plan.order = {Axis::kSharded, Axis::kTensor, Axis::kReplica, Axis::kContext, Axis::kPipeline};
  if (!placement.tensor_first) {
    std::swap(plan.order[1], plan.order[3]);
  }
}

Plan placed(Plan plan, const LayerPlacement& placement) {
  set_placement(placement, plan);
  return plan;
}

bool no_faster(const PassTimes& a, const PassTimes& b) {
  return a.tensor >= b.tensor && a.context >= b.context && a.expert >= b.expert;
}

bool no_faster(const LayerTimes& a, const LayerTimes& b) {
  return no_faster(a.forward, b.forward) && no_faster(a.input_gradient, b.input_gradient) &&
         no_faster(a.recompute, b.recompute);
}

bool no_faster(const LayerSet& a, const LayerSet& b) {
  for (std::size_t kind = 0; kind < a.kinds.size(); ++kind) {
    if (!no_faster(a.kinds[kind], b.kinds[kind])) {
      return false;
    }
  }
  return no_faster(a.embedding, b.embedding) && no_faster(a.head, b.head);
}

// Every placement of the tensor and context ranks among the others.
template <typename Ask>
void each_placement(const Job& job, const Plan& plan, const Ask& ask) {
  const bool both = plan.tensor > 1 && plan.context > 1;
  const std::int64_t rest = job.cluster.gpus / plan.tensor / plan.context;
  for (std::int64_t inner = 1; inner <= rest; ++inner) {
    for (std::int64_t between = 1; rest % inner == 0 && inner * between <= rest; ++between) {
      for (const bool tensor_first : {true, false}) {
        if (rest / inner % between == 0 && (both || between == 1)) {
          ask(LayerPlacement{inner, between, tensor_first});
        }
      }
    }
  }
}

// The host and the GPU work at once: the slower one counts.
double seconds_of(const LayerTimes& times, bool recomputed) {
  const PassTimes none;
  const PassTimes& again = recomputed ? times.recompute : none;
  return std::max(times.forward.gpu(), times.forward.host) +
         std::max(times.input_gradient.gpu() + times.weight_gradient + again.gpu(),
                  times.input_gradient.host + again.host);
}

}  // namespace

PartCosts TimeModel::part_seconds(const Plan& plan) {
  State& s = *state_;
  const LayerSet& set = s.layer_set(plan);
  const bool recomputed = plan.recompute != Recompute::kNone;
  PartCosts costs;
  costs.embedding = seconds_of(set.embedding, false);
  costs.head = seconds_of(set.head, false);
  for (std::int64_t stage = 0; !s.group_timers.empty() && stage < plan.pipeline; ++stage) {
    costs.speeds.push_back(s.speed_of_stage(plan, stage));
  }
  costs.layers.resize(static_cast<std::size_t>(models::trained_layers(s.job.model)));
  for (std::size_t kind = 0; kind < set.kinds.size(); ++kind) {
    const double seconds = seconds_of(set.kinds[kind], recomputed);
    const std::vector<std::int64_t>& up_to = s.kinds.up_to[kind];
    for (std::size_t layer = 0; layer < costs.layers.size(); ++layer) {
      costs.layers[layer] = up_to[layer + 1] > up_to[layer] ? seconds : costs.layers[layer];
    }
  }
  return costs;
}

// Layers a second of a stage's slowest card.
double TimeModel::State::speed_of_stage(const Plan& plan, std::int64_t stage) {
  RankClass layer;
  layer.groups = groups_of_stage(job.cluster, plan, stage);
  layer.layers.assign(kinds.first_layer.size(), 0);
  layer.layers.front() = 1;
  layer.recomputed = layer.layers;
  return 1 / seconds_of(layer_set(plan, layer).kinds.front(), plan.recompute != Recompute::kNone);
}

// A class of ranks in a bound: `data` is what is known of its data-parallel time.
void TimeModel::State::add_to_bound(const RankClass& rank, const RankTimes& times,
                                    double before_message, const DataParallelTime& data,
                                    StageTotals& totals) {
  const double forward =
      times.forward_total() + data.compute_forward + data.per_micro_batch_forward;
  const double backward =
      times.backward_total() + data.compute_backward + data.per_micro_batch_backward;
  const auto count = static_cast<double>(rank.count);
  stage_seconds.push_back(
      {forward, backward, 0, times.weight_pass(), before_message, times.embedding, times.head});
  totals.before_messages += count * before_message;
  add_ranks(totals, count, forward, backward);
  if (forward + backward > totals.slowest) {
    totals.slowest = forward + backward;
    totals.weight_gradient = times.weight_pass();
  }
}

double TimeModel::placed_bound(const Plan& plan) {
  State& s = *state_;
  const std::vector<RankClass>& classes = s.classes(plan);
  StageTotals totals;
  s.stage_seconds.clear();
  const LayerSet* alike =
      topologies::has_unlike_nodes(s.job.cluster) ? nullptr : &s.layer_set(plan);
  for (const RankClass& rank : classes) {
    const LayerSet& set = alike != nullptr ? *alike : s.layer_set(plan, rank);
    const RankTimes times = s.rank_times(plan, set, rank);
    s.add_to_bound(rank, times, s.before_message(plan, rank, times), {}, totals);
  }
  totals.bottleneck = s.bottleneck(plan, classes);
  return pipeline_time(plan, totals, HopTimes{}).total + s.fit.step_seconds;
}

double TimeModel::sharded_bound(const Plan& plan) {
  State& s = *state_;
  s.turn_to(plan);
  State::OfAxes& of = s.of_axes(plan);
  if (topologies::has_unlike_nodes(s.job.cluster)) {
    return s.sharded_bound(plan, of);
  }
  for (const auto& [other, seconds] : s.bounded) {
    if (other == of.placed) {
      return seconds;
    }
  }
  return s.bounded.emplace_back(of.placed, s.sharded_bound(plan, of)).second;
}

// What a rank waits for once a step shows whole on the first one: nobody is before it.
double TimeModel::State::sharded_bound(const Plan& plan, OfAxes& of) {
  const std::vector<RankWork>& work = ranks_work(plan, of.placed);
  const std::vector<RankClass>& ranks = classes(plan);
  std::size_t slowest = 0;
  const auto seconds_of_class = [&](std::size_t c) {
    return work[c].times.forward_total() + work[c].times.backward_total();
  };
  for (std::size_t c = 1; c < work.size(); ++c) {
    slowest = seconds_of_class(c) > seconds_of_class(slowest) ? c : slowest;
  }
  const DataParallelTime data = data_parallel.measure(
      plan, work[slowest].in,
      plan.virtual_pipeline > 1 ? hop(plan, of.placed).beside_chunks(plan) : 0, of.data);
  StageTotals totals;
  stage_seconds.clear();
  for (std::size_t c = 0; c < work.size(); ++c) {
    add_to_bound(ranks[c], work[c].times, work[c].before_message,
                 c == slowest ? data : DataParallelTime{}, totals);
  }
  totals.bottleneck = bottleneck(plan, ranks);
  return pipeline_time(plan, totals, HopTimes{}).total + fit.step_seconds +
         (slowest == 0 ? data.exposed + data.compute_once : 0);
}

double TimeModel::lower_bound(const Plan& plan) {
  State& s = *state_;
  double least = std::numeric_limits<double>::infinity();
  Plan here = plan;
  for (const LayerPlacement& placement : s.fastest_placements(plan)) {
    s.place_fastest(placement, plan, here);
    least = std::min(least, placed_bound(here));
  }
  return least;
}

// `here`: the plan, so placed and with the fastest layers that it may have then.
void TimeModel::State::place_fastest(const LayerPlacement& placement, const Plan& plan,
                                     Plan& here) const {
  here.sharding = plan.sharding;
  set_placement(placement, here);
  if (has_fp32_experts(job, here)) {
    here.sharding = Sharding::kOptimizer;  // experts of a sharded copy are in 16 bits: faster
  }
}

// Of the placements that may be a plan's fastest, one each of those that NCCL sees alike. Plans
// with the same layers have them in common.
const std::vector<LayerPlacement>& TimeModel::State::fastest_placements(const Plan& plan) {
  const LayerSetKey key = layers_of(plan);
  if (const std::vector<LayerPlacement>* found = fastest.find(key)) {
    return *found;
  }
  std::vector<LayerPlacement> placements;
  std::vector<std::pair<std::int64_t, std::int64_t>> known;  // strides of tensor and context
  Plan here = plan;
  const auto add = [&](const LayerPlacement& placement) {
    place_fastest(placement, plan, here);
    const std::pair strides(collectives.group(here, Axis::kTensor).stride,
                            collectives.group(here, Axis::kContext).stride);
    if (std::find(known.begin(), known.end(), strides) == known.end()) {
      known.push_back(strides);
      placements.push_back(placement);
    }
  };
  const bool both = plan.tensor > 1 && plan.context > 1;
  for (const bool tensor_first : {true, false}) {
    if (tensor_first || both) {
      add({1, 1, tensor_first});
    }
  }
  // Where a fast network stands beside slow links in the node, ranks that are apart may be the
  // faster ones.
  if ((plan.tensor > 1 || plan.context > 1) && !nearest_is_fastest(plan)) {
    each_placement(job, plan, add);
    drop_slower(plan, placements);
  }
  return fastest.insert(key, std::move(placements));
}

// Those whose layers are nowhere faster than another's. On unlike nodes a layer has more than one
// time, and all stay.
void TimeModel::State::drop_slower(const Plan& plan, std::vector<LayerPlacement>& placements) {
  if (topologies::has_unlike_nodes(job.cluster)) {
    return;
  }
  std::vector<std::pair<LayerPlacement, LayerSet>> kept;
  Plan here = plan;
  for (const LayerPlacement& placement : placements) {
    place_fastest(placement, plan, here);
    const LayerSet& set = layer_set(here);
    if (std::ranges::none_of(kept, [&](const auto& one) { return no_faster(set, one.second); })) {
      std::erase_if(kept, [&](const auto& one) { return no_faster(one.second, set); });
      kept.emplace_back(placement, set);
    }
  }
  placements.clear();
  for (const auto& [placement, set] : kept) {
    placements.push_back(placement);
  }
}

// Whether a layer's collectives only get slower as the tensor and context ranks move apart. Beyond
// a node's GPUs each member has a node of its own, and farther is never faster.
bool TimeModel::State::nearest_is_fastest(const Plan& plan) {
  const NearestKey key{plan.tensor, plan.context, plan.micro_batch, plan.sequence_parallel ? 1 : 0};
  if (const bool* found = nearest_fastest.find(key)) {
    return *found;
  }
  Plan plain = plan;
  plain.recompute = Recompute::kNone;
  if (topologies::has_unlike_nodes(job.cluster)) {
    return nearest_fastest.insert(key, nearest_is_fastest_on_groups(plain));
  }
  const std::int64_t rest = job.cluster.gpus / plan.tensor / plan.context;
  bool is_fastest = true;
  for (const bool tensor_first : {true, false}) {
    const LayerSet nearest = layer_set(placed(plain, {1, 1, tensor_first}));
    bool whole_nodes = false;
    for (std::int64_t inner = 2; inner <= rest && !whole_nodes && is_fastest; ++inner) {
      if (rest % inner == 0) {
        is_fastest = no_faster(layer_set(placed(plain, {inner, 1, tensor_first})), nearest);
        whole_nodes = inner >= job.cluster.node.gpus;
      }
    }
  }
  return nearest_fastest.insert(key, is_fastest);
}

// The same on each group of unlike nodes, whose sizes differ: of every placement. What experts
// exchange is not compared here, so with them every placement is asked.
bool TimeModel::State::nearest_is_fastest_on_groups(const Plan& plain) {
  if (job.model.moe) {
    return false;
  }
  const auto set_of = [&](std::size_t group, const LayerPlacement& placement) {
    const Plan here = placed(plain, placement);
    return group_set(group, here, layer_key(here));
  };
  bool is_fastest = true;
  for (std::size_t group = 0; group < group_timers.size() && is_fastest; ++group) {
    const std::array<LayerSet, 2> nearest = {set_of(group, {1, 1, false}),
                                             set_of(group, {1, 1, true})};
    each_placement(job, plain, [&](const LayerPlacement& placement) {
      is_fastest = is_fastest &&
                   no_faster(set_of(group, placement), nearest[placement.tensor_first ? 1 : 0]);
    });
  }
  return is_fastest;
}

std::vector<TimeModel::StageTimes> TimeModel::stage_times(const Plan& plan) {
  State& s = *state_;
  std::vector<StageTimes> stages(static_cast<std::size_t>(plan.pipeline));
  const std::vector<Chunk> chunks = chunks_of(s.job, plan);
  for (std::size_t r = 0; r < stages.size(); ++r) {
    // The class of a rank is found by its chunks again: stage_times is not on search's path.
    const RankClass rank = s.contents_of(plan, chunks, static_cast<std::int64_t>(r));
    const RankTimes times = s.rank_times(plan, s.layer_set(plan, rank), rank);
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
