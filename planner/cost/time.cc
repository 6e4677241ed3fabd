#include "planner/cost/time.h"
#include "planner/cost/host_wait.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "planner/cost/adapters.h"
#include "planner/cost/expert_time.h"
#include "planner/cost/offload_cost.h"
#include "planner/cost/product_time.h"
#include "planner/cost/time_state.h"
#include "planner/cost/unit_launches.h"
#include "planner/cost/unit_layers.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"
#include "planner/plan/stage_groups.h"
#include "planner/plan/stages.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

using topologies::Collective;

namespace {

// Of a layer's input gradients, what comes before its first weight gradient: the last product's.
constexpr double kBeforeGradients = 0.2;

void add_layers(const LayerTimes& layer, double count, double recomputed, bool every_layer,
                RankTimes& rank) {
  rank.forward += count * layer.forward.kernels;
  rank.input_gradient += count * layer.input_gradient.kernels;
  rank.weight_gradient += count * layer.weight_gradient;
  rank.tensor_forward += count * layer.forward.tensor;
  rank.tensor_backward += count * layer.input_gradient.tensor;
  rank.weight_tensor += count * layer.weight_tensor;
  rank.context_forward += count * layer.forward.context;
  rank.context += count * (layer.forward.context + layer.input_gradient.context);
  rank.expert_forward += count * layer.forward.expert;
  rank.expert += count * (layer.forward.expert + layer.input_gradient.expert);
  rank.host_forward += count * layer.forward.host;
  rank.hidden += count * (layer.forward.hidden + layer.input_gradient.hidden);
  rank.host_weight += count * layer.weight_host;
  rank.flop += count * 3 * layer.forward_flop;
  const double again = every_layer ? count : recomputed;
  rank.host_backward += count * layer.input_gradient.host + again * layer.recompute.host;
  rank.recompute += again * layer.recompute.kernels;
  rank.tensor_backward += again * layer.recompute.tensor;
  rank.context += again * layer.recompute.context;
  rank.expert += again * layer.recompute.expert;
  rank.recomputed_flop += again * layer.recompute_flop;
}

}  // namespace

TimeModel::State::LayerSetKey TimeModel::State::layer_key(const Plan& plan) {
  return {.tensor = plan.tensor,
          .context = plan.context,
          .expert = plan.expert,
          .expert_tensor = plan.expert_tensor,
          .micro_batch = plan.micro_batch,
          .tensor_stride = collectives.group(plan, Axis::kTensor).stride,
          .context_stride = collectives.group(plan, Axis::kContext).stride,
          .recompute_modules = plan.recompute_modules,
          .recompute = static_cast<std::uint16_t>(plan.recompute),
          .sequence_parallel = static_cast<std::uint8_t>(plan.sequence_parallel ? 1 : 0),
          .fp32_experts = static_cast<std::uint8_t>(has_fp32_experts(job, plan) ? 1 : 0),
          .splits_backward = static_cast<std::uint8_t>(splits_backward(plan) ? 1 : 0),
          .overlapped_experts = static_cast<std::uint8_t>(
              overlaps_experts(job, plan)
                  ? 1 + std::lround(kOverlapSteps * overlapped_share(plan.micro_batches,
                                                                     plan.virtual_pipeline,
                                                                     plan.pipeline))
                  : 0)};
}

const LayerSet& TimeModel::State::layer_set(const Plan& plan) {
  const LayerSetKey key = layer_key(plan);
  if (const LayerSet* found = sets.find(key)) {
    return *found;
  }
  return sets.insert(key, layers.measure(plan, kinds));
}

RankTimes TimeModel::State::rank_times(const Plan& plan, const LayerSet& set,
                                       const RankClass& rank) const {
  RankTimes times;
  const bool every_layer = plan.recompute != Recompute::kFull;
  for (std::size_t kind = 0; kind < set.kinds.size(); ++kind) {
    add_layers(set.kinds[kind], static_cast<double>(rank.layers[kind]),
               static_cast<double>(rank.recomputed[kind]), every_layer, times);
  }
  if (rank.embedding) {
    add_layers(set.embedding, 1, 0, true, times);
  }
  if (rank.head) {
    add_layers(set.head, 1, 0, true, times);
  }
  if (has_unit_hosts(job.framework, plan.sharding) && plan.sharded * plan.context > 1) {
    add_unit_hosts(plan, rank, times);
  }
  const auto count =
      static_cast<double>(std::accumulate(rank.layers.begin(), rank.layers.end(), std::int64_t{0}));
  times.host_backward +=
      op.launch(1).value * fit.host_factor * micro_batch_host(job, count, plan.micro_batches > 1);
  const HostWaits waits =
      host_waits({times.forward_total(), times.backward_total()},
                 {times.host_forward, times.host_backward}, plan.pipeline > 1, job.framework);
  times.host_wait_forward = waits.forward;
  times.host_wait_backward = waits.backward;
  return times;
}

// What is reduced and stepped where weights are frozen, and what a gathered one weighs.
void TimeModel::State::set_trained_shares(const Plan& plan, const RankClass& rank,
                                          DataParallelInput& in) const {
  const Training& training = job.training;
  if (!training.has_adapters() && training.frozen_layers == 0) {
    return;
  }
  double trained = 0;
  double experts = 0;
  const AdapterElements adapters = adapter_elements(
      job, {.tensor = plan.tensor,
            .expert = plan.expert,
            .expert_tensor = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor});
  for (std::size_t kind = 0; kind < rank.layers.size(); ++kind) {
    const auto count = static_cast<double>(rank.layers[kind]);
    const bool sparse = kinds.expert_parameters[kind] > 0;
    if (training.has_adapters()) {
      trained += count * (sparse ? adapters.sparse_layer : adapters.dense_layer);
      experts += sparse ? count * adapters.experts : 0;
    } else if (kinds.first_layer[kind] >= training.frozen_layers) {
      trained += count * kinds.dense_parameters[kind] / static_cast<double>(plan.tensor);
      experts += count * kinds.expert_parameters[kind];
    }
  }
  if (training.embeddings || !training.has_adapters()) {
    trained += in.root_parameters;
  }
  in.trained_share = in.dense_parameters > 0 ? trained / in.dense_parameters : 1;
  if (training.has_adapters()) {
    in.trained_expert_share = in.expert_parameters > 0 ? experts / in.expert_parameters : 1;
    in.gathered_share = frozen_bytes(training.base) / job.framework.parameter_bytes;
  }
}

DataParallelInput TimeModel::State::data_input(const Plan& plan, const RankClass& rank,
                                               const RankTimes& times, const LayerSet& ends) const {
  DataParallelInput in;
  const auto tensor = static_cast<double>(plan.tensor);
  std::int64_t layer_count = 0;
  for (std::size_t kind = 0; kind < rank.layers.size(); ++kind) {
    const auto count = static_cast<double>(rank.layers[kind]);
    layer_count += rank.layers[kind];
    in.dense_parameters += count * kinds.dense_parameters[kind] / tensor;
    const double split_experts =
        static_cast<double>(plan.expert) *
        static_cast<double>(plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor);
    in.expert_parameters += count * kinds.expert_parameters[kind] / split_experts;
  }
  if (rank.embedding) {
    in.root_parameters += embedding_parameters / tensor;
    in.embedding_parameters = embedding_parameters / tensor;
    in.embedding_compute = ends.embedding.forward.gpu();
    in.embedding_backward = ends.embedding.input_gradient.gpu() + ends.embedding.weight_gradient;
  }
  if (rank.head && rank.embedding && job.model.tied_embeddings) {
    in.tied_head_parameters = in.embedding_parameters;
  } else if (rank.head) {
    in.root_parameters += head_parameters / tensor;
  }
  if (rank.head) {
    in.head_forward = ends.head.forward.gpu();
    in.head_input_gradient = ends.head.input_gradient.gpu();
    in.head_backward = in.head_input_gradient + ends.head.weight_gradient;
  }
  if (predicts(rank) && !rank.embedding && !job.model.tied_embeddings) {
    // A copy of the token table, which prediction modules read.
    in.root_parameters += embedding_parameters / tensor;
  }
  in.dense_parameters += in.root_parameters;
  set_trained_shares(plan, rank, in);
  const std::int64_t chunk =
      std::max<std::int64_t>(1, layer_count / std::max<std::int64_t>(1, plan.virtual_pipeline));
  const std::int64_t all =
      layers_of_unit(job, plan, run_sharding(job, plan),
                     kinds.dense_parameters.front() + kinds.expert_parameters.front());
  const std::int64_t unit = all > 0 ? std::min(all, chunk) : chunk;
  const std::int64_t units = (layer_count + unit - 1) / unit;
  in.units = static_cast<double>(units);
  in.unit_share = static_cast<double>(unit) / static_cast<double>(std::max(layer_count, unit));
  in.forward = times.forward_total();
  in.backward = times.backward_total();
  const double waits = in.backward / std::max(in.backward - times.host_wait_backward, 1e-12);
  in.before_gradients = waits * (times.recompute + kBeforeGradients * times.input_gradient);
  in.weight_gradient = times.weight_pass();
  in.rank = rank.last_rank;
  const double kernels =
      times.forward + times.input_gradient + times.weight_gradient + times.recompute;
  in.kernel_share = kernels / std::max(in.forward + in.backward, 1e-12);
  return in;
}

// Of a chunk's backward, what its last layer repeats before it needs the gradient: the longest of
// its kinds of layers, whichever stands last.
double TimeModel::State::recompute_of_last_layer(const Plan& plan, const RankClass& rank,
                                                 const LayerSet& set) {
  double seconds = 0;
  for (std::size_t kind = 0; kind < set.kinds.size(); ++kind) {
    const bool repeats =
        plan.recompute != Recompute::kFull || rank.recomputed[kind] == rank.layers[kind];
    if (rank.layers[kind] > 0 && repeats) {
      seconds = std::max(seconds, set.kinds[kind].recompute.gpu());
    }
  }
  return seconds;
}

StepRanks TimeModel::State::step_ranks(const Plan& plan, const HopTimes& hop_times,
                                       DataParallelTimer::OfPlan& of_plan) {
  const std::vector<RankClass>& ranks = classes(plan);
  const DataParallelTimer::Groups& groups = of_plan.groups;
  const bool blocking = plan.pipeline > 1 && plan.virtual_pipeline == 1 && hop_times.blocking;
  const bool sharded = plan.sharding != Sharding::kNone;
  const double shards =
      sharded ? static_cast<double>(std::max<std::int64_t>(1, groups.shard.ranks)) : 1;
  const double expert_shards =
      sharded ? static_cast<double>(std::max<std::int64_t>(1, groups.expert_shard.ranks)) : 1;
  StepRanks step;
  double before = 0;  // backward time of the ranks before: how much earlier a later rank may reduce
  double late = 0;    // what those take longer in the last one
  stage_seconds.clear();
  const LayerSet* alike = topologies::has_unlike_nodes(job.cluster) ? nullptr : &layer_set(plan);
  for (const RankClass& rank : ranks) {
    const LayerSet& set = alike != nullptr ? *alike : layer_set(plan, rank);
    const RankTimes times = rank_times(plan, set, rank);
    const DataParallelInput in = data_input(plan, rank, times, set);
    const DataParallelTime data = data_parallel.measure(plan, in, of_plan);
    const double forward =
        times.forward_total() + data.compute_forward + data.per_micro_batch_forward;
    const double backward =
        times.backward_total() + data.compute_backward + data.per_micro_batch_backward;
    const auto count = static_cast<double>(rank.count);
    add_ranks(step.totals, count, forward, backward);
    step.flop += count * times.flop;
    step.recomputed_flop += count * times.recomputed_flop;
    const double dense = in.dense_parameters * in.trained_share;
    const double experts = in.expert_parameters * in.trained_expert_share;
    step.parameters = std::max(step.parameters, dense + experts);
    step.stepped = std::max(step.stepped, dense / shards + experts / expert_shards);
    const double gathered = in.dense_parameters / shards + in.expert_parameters / expert_shards;
    step.gathered = std::max(step.gathered, gathered * in.gathered_share);
    const double once = data.exposed + data.compute_once - data.late - late - before;
    if (once > step.data_cost) {
      step.data_cost = once;
      step.data = data;
      step.late_after = -data.late - late;
    }
    // With a split backward all ranks end together.
    before += splits_backward(plan) ? 0 : count * backward;
    late += count * data.late;
    // The first and the last rank have one neighbour: half the exchanges of the others.
    const double exchanges = rank.embedding || rank.head ? 1 : 2;
    const double exchange = blocking ? exchanges * hop_times.cost() : 0;
    stage_seconds.push_back({forward, backward, exchange, times.weight_pass()});
    if (const double cycle = forward + backward + exchange; cycle > step.slowest_cycle) {
      step.slowest_cycle = cycle;
      step.slowest = times;
      step.slowest_data = data.per_micro_batch_forward + data.per_micro_batch_backward;
      step.slowest_sums = data.compute_forward + data.compute_backward;
      step.totals.slowest = forward + backward;
      step.totals.exchanges = exchanges;
      step.totals.weight_gradient = times.weight_pass();
      step.totals.before_message = recompute_of_last_layer(plan, rank, set);
    }
  }
  // A rank's last backward waits for those of all ranks behind it.
  step.data_cost += late;
  step.late_after += late;
  step.totals.bottleneck = bottleneck(plan, ranks);
  return step;
}

// What lives on the host: its transfers beside compute, and the update there.
void TimeModel::State::add_offload(const Plan& plan, const StepRanks& step,
                                   TimeItems& items) const {
  items.offload = 0;
  if (!job.offload.any()) {
    return;
  }
  const double hidden = 2 * static_cast<double>(plan.micro_batch) *
                        static_cast<double>(timed_sequence(job, plan)) *
                        static_cast<double>(job.model.hidden) / static_cast<double>(plan.context);
  const double held = static_cast<double>(job.model.layers) / static_cast<double>(plan.pipeline);
  // A checkpoint a layer; without recompute about seventeen such tensors (Korthikanti et al. 2022).
  const double kept = plan.recompute == Recompute::kFull ? 1 : 17;
  const OffloadTime time =
      offload_time(job, plan,
                   {.trained = step.stepped,
                    .parameters = step.gathered,
                    .kept = hidden * held * kept * job.offload.activation_share,
                    .forward = step.slowest.forward_total(),
                    .backward = step.slowest.backward_total(),
                    .micro_batches = static_cast<double>(plan.micro_batches)});
  items.offload = time.exposed;
  if (job.offload.optimizer != OffloadTo::kNone) {
    items.optimizer = items.optimizer * (1 - job.offload.optimizer_share) + time.optimizer;
  }
}

TimeModel::TimeModel(const Job& job) : state_(std::make_unique<State>(job)) {}
TimeModel::~TimeModel() = default;
TimeModel::TimeModel(TimeModel&&) noexcept = default;
TimeModel& TimeModel::operator=(TimeModel&&) noexcept = default;

void TimeModel::State::time_step(const Plan& plan, DataParallelTimer::OfPlan& of_plan,
                                 TimeEstimate& out) {
  const HopTimes hop_times = hop(plan);
  const StepRanks step = step_ranks(plan, hop_times, of_plan);
  const PipelineTime pipeline = pipeline_time(plan, step.totals, hop_times);
  const RankTimes& slowest = step.slowest;
  const auto m = static_cast<double>(plan.micro_batches);
  TimeItems& items = out.exposed;
  items.compute = m * (slowest.forward + slowest.input_gradient + slowest.weight_gradient +
                       slowest.recompute + step.slowest_sums) +
                  step.data.compute_once;
  items.tensor_parallel = m * (slowest.tensor_forward + slowest.tensor_backward);
  items.context_parallel = m * slowest.context;
  items.expert_parallel = m * slowest.expert;
  items.other = m * (slowest.host_wait_forward + slowest.host_wait_backward) + fit.step_seconds;
  items.pipeline_bubble = pipeline.bubble + step.late_after;
  items.pipeline_p2p = pipeline.exchange;
  items.data_parallel = std::max(0.0, step.data_cost - step.late_after - step.data.compute_once) +
                        m * step.slowest_data + tied_exchange(plan);
  items.optimizer = optimizer_seconds(job, plan, {step.stepped, step.parameters}, op);
  items.other += std::max(0.0, step_host_seconds(plan) - items.optimizer);
  add_offload(plan, step, items);
  out.step_seconds = items.total();
  out.low_seconds = out.step_seconds * interval.low;
  out.high_seconds = (out.step_seconds + m * slower_host_seconds(plan, slowest)) * interval.high;
  out.hidden_communication_seconds = m * slowest.hidden + step.data.hidden;
  out.recomputed_flop_share = step.flop > 0 ? step.recomputed_flop / step.flop : 0;
}

TimeModel::State::Placed TimeModel::State::place(const Plan& plan,
                                                 const DataParallelTimer::Groups& groups) {
  Placed here;
  here.tensor = collectives.group(plan, Axis::kTensor);
  here.context = collectives.group(plan, Axis::kContext);
  here.shard = groups.shard;
  here.replica = groups.replica;
  if (plan.pipeline > 1) {
    here.pair = collectives.pipeline_pair(plan);
  }
  if (shares_table(job, plan)) {
    here.ends = collectives.pipeline_ends(plan);
  }
  return here;
}

void TimeModel::estimate(const Plan& plan, TimeEstimate& out) {
  State& s = *state_;
  s.timed_plan.order = plan.order;
  if (!(s.timed_plan == plan)) {
    s.timed_plan = plan;
    s.timed.clear();
  }
  DataParallelTimer::OfPlan of_plan = s.data_parallel.of_plan(plan);
  if (topologies::has_unlike_nodes(
          s.job.cluster)) {  // an order also decides which cards hold a stage
    s.time_step(plan, of_plan, out);
    return;
  }
  const State::Placed here = s.place(plan, of_plan.groups);
  for (const auto& [other, time] : s.timed) {
    if (other == here) {
      out = time;
      return;
    }
  }
  s.time_step(plan, of_plan, out);
  s.timed.emplace_back(here, out);
}

}  // namespace trireme::planner
