#include "planner/cost/time.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "planner/cost/expert_time.h"
#include "planner/cost/kept_on_host.h"
#include "planner/cost/offload_cost.h"
#include "planner/cost/product_time.h"
#include "planner/cost/time_state.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"
#include "planner/plan/stages.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

TimeModel::State::LayerSetKey TimeModel::State::layer_key(const Plan& plan) {
  LayerSetKey key = layers_of(plan);
  key.strides = strides_of(plan);
  return key;
}

TimeModel::State::Strides TimeModel::State::strides_of(const Plan& plan) {
  return {collectives.group(plan, Axis::kTensor).stride,
          collectives.group(plan, Axis::kContext).stride};
}

TimeModel::State::LayerSetKey TimeModel::State::layers_of(const Plan& plan) const {
  return {.tensor = plan.tensor,
          .context = plan.context,
          .expert = plan.expert,
          .expert_tensor = plan.expert_tensor,
          .micro_batch = plan.micro_batch,
          .casts = casts_key(job, plan),
          .strides = {},
          .recompute_modules = plan.recompute_modules,
          .recompute = static_cast<std::uint16_t>(plan.recompute),
          .sequence_parallel = static_cast<std::uint8_t>(plan.sequence_parallel ? 1 : 0),
          .fp32_experts = static_cast<std::uint8_t>(has_fp32_experts(job, plan) ? 1 : 0),
          .splits_backward = static_cast<std::uint8_t>(splits_backward(plan) ? 1 : 0),
          .overlapped_experts = static_cast<std::uint8_t>(
              overlaps_experts(job, plan) ? 1 + std::lround(kOverlapSteps * overlapped_share(plan))
                                          : 0)};
}

const LayerSet& TimeModel::State::layer_set(const Plan& plan) {
  return layer_set(plan, strides_of(plan));
}

const LayerSet& TimeModel::State::layer_set(const Plan& plan, const Strides& strides) {
  LayerSetKey key = layers_of(plan);
  key.strides = strides;
  if (const LayerSet* found = sets.find(key)) {
    return *found;
  }
  return sets.insert(key, layers.measure(plan, kinds));
}

StepRanks TimeModel::State::step_ranks(const Plan& plan, const HopTimes& hop_times, OfAxes& of) {
  const std::vector<RankWork>& work = ranks_work(plan, of.placed);
  const std::vector<RankClass>& ranks = classes(plan);
  const DataParallelTimer::Groups& groups = of.data.groups;
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
  for (std::size_t c = 0; c < ranks.size(); ++c) {
    const RankClass& rank = ranks[c];
    const auto& [times, in, before_message] = work[c];
    const DataParallelTime data =
        data_parallel.measure(plan, in, hop_times.beside_chunks(plan), of.data);
    const double forward =
        times.forward_total() + data.compute_forward + data.per_micro_batch_forward;
    const double backward =
        times.backward_total() + data.compute_backward + data.per_micro_batch_backward;
    const auto count = static_cast<double>(rank.count);
    add_ranks(step.totals, count, forward, backward);
    step.totals.before_messages += count * before_message;
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
    // With weight gradients at the end all ranks end together.
    before += ends_with_weights(plan) ? 0 : count * backward;
    late += count * data.late;
    // The first and the last rank have one neighbour: half the exchanges of the others.
    const double exchanges = rank.embedding || rank.head ? 1 : 2;
    const double exchange = blocking ? exchanges * hop_times.cost() : 0;
    stage_seconds.push_back({forward, backward, exchange, times.weight_pass(), before_message,
                             times.embedding, times.head});
    if (const double cycle = forward + backward + exchange; cycle > step.slowest_cycle) {
      step.slowest_cycle = cycle;
      step.slowest = &times;
      step.slowest_data = data.per_micro_batch_forward + data.per_micro_batch_backward;
      step.slowest_sums = data.compute_forward + data.compute_backward;
      step.totals.slowest = forward + backward;
      step.totals.exchanges = exchanges;
      step.totals.weight_gradient = times.weight_pass();
      step.totals.before_message = before_message;
    }
  }
  // A rank's last backward waits for those of all ranks behind it.
  step.data_cost += late;
  step.late_after += late;
  step.totals.bottleneck = bottleneck(plan, ranks);
  if (is_in_v(plan.schedule) && plan.pipeline > 1) {
    const double whole = v_seconds(plan, ranks, hop_times);
    step.totals.messages = std::max(0.0, whole - step.totals.bottleneck);
  }
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
  const bool own = keeps_on_host(job);
  const OffloadTime time =
      offload_time(job, plan, node_host,
                   {.trained = step.stepped,
                    .parameters = step.gathered,
                    .kept = own ? 0 : hidden * held * kept * job.offload.activation_share,
                    .forward = step.slowest->forward_total(),
                    .backward = step.slowest->backward_total(),
                    .micro_batches = static_cast<double>(plan.micro_batches),
                    .update = items.optimizer});
  items.offload = time.exposed;
  if (own) {
    items.offload += kept_on_host_seconds(job, plan, node_host, step.slowest->forward_total(),
                                          step.slowest->backward_total());
  }
  if (job.offload.optimizer != OffloadTo::kNone) {
    items.optimizer = items.optimizer * (1 - job.offload.optimizer_share) + time.optimizer;
  }
}

TimeModel::TimeModel(const Job& job) : state_(std::make_unique<State>(job)) {}
TimeModel::~TimeModel() = default;
TimeModel::TimeModel(TimeModel&&) noexcept = default;
TimeModel& TimeModel::operator=(TimeModel&&) noexcept = default;

void TimeModel::State::time_step(const Plan& plan, OfAxes& of, TimeEstimate& out) {
  const HopTimes hop_times = hop(plan, of.placed);
  const StepRanks step = step_ranks(plan, hop_times, of);
  const PipelineTime pipeline = pipeline_time(plan, step.totals, hop_times);
  TRIREME_CHECK(step.slowest != nullptr);
  const RankTimes& slowest = *step.slowest;
  const auto m = static_cast<double>(plan.micro_batches);
  TimeItems& items = out.exposed;
  items.compute = m * (slowest.forward + slowest.input_gradient + slowest.weight_gradient +
                       slowest.recompute + step.slowest_sums) +
                  step.data.compute_once;
  items.tensor_parallel = m * (slowest.tensor_forward + slowest.tensor_backward);
  items.context_parallel = m * slowest.context;
  items.expert_parallel = m * slowest.expert;
  items.other = m * (slowest.host_wait_forward + slowest.host_wait_backward) + fit.step_seconds;
  // What a rank's last pass takes longer shows in its waiting, of which a V has next to none.
  const double late_after = std::max(step.late_after, -pipeline.bubble);
  items.pipeline_bubble = pipeline.bubble + late_after;
  items.pipeline_p2p = pipeline.exchange;
  items.data_parallel = std::max(0.0, step.data_cost - late_after - step.data.compute_once) +
                        m * step.slowest_data + tied_exchange(plan, of.placed);
  items.optimizer = optimizer_seconds(job, plan, {step.stepped, step.parameters}, op);
  items.other += std::max(0.0, step_host_seconds(plan) - items.optimizer);
  add_offload(plan, step, items);
  out.step_seconds = items.total();
  // Runs of one program on one kind of host differ by 10 to 30 % (docs/frameworks_started.md).
  constexpr double kSlowestHost = 1.3;
  const double faster = std::min(0.0, other_host_seconds(plan, slowest, 1 / kSlowestHost));
  const double slower = std::max(0.0, other_host_seconds(plan, slowest, kSlowestHost));
  out.low_seconds = (out.step_seconds + m * faster) * interval.low;
  out.high_seconds = (out.step_seconds + m * slower) * interval.high;
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
    here.pair = collectives.pair(plan, Axis::kPipeline);
  }
  if (shares_table(job, plan)) {
    here.ends = collectives.pipeline_ends(plan);
  }
  return here;
}

TimeModel::State::OfAxes& TimeModel::State::of_axes(const Plan& plan) {
  constexpr std::size_t kKept = 1024;  // a power of two: more than a node of search has
  const AxesKey key{.tensor = plan.tensor,
                    .pipeline = plan.pipeline,
                    .context = plan.context,
                    .expert = plan.expert,
                    .expert_tensor = plan.expert_tensor,
                    .sharded = plan.sharded,
                    .replicas = plan.replicas,
                    .order = plan.order,
                    .sharding = plan.sharding,
                    .reshards = plan.reshard_after_forward,
                    .prediction_apart = plan.prediction_apart};
  axes.resize(kKept);
  std::unique_ptr<OfAxes>& kept = axes[FieldsHash<AxesKey>()(key) & (kKept - 1)];
  if (!kept) {
    kept = std::make_unique<OfAxes>();
  }
  OfAxes& known = *kept;
  if (!(known.key == key)) {
    known.key = key;
    known.data = data_parallel.of_plan(plan);
    known.placed = place(plan, known.data.groups);
  }
  for (DataParallelTimer::KnownUnit& unit : known.data.units) {
    unit.of_this_plan = false;
  }
  return known;
}

void TimeModel::State::turn_to(const Plan& plan) {
  timed_plan.order = plan.order;
  if (!(timed_plan == plan)) {
    timed_plan = plan;
    timed.clear();
    bounded.clear();
    worked_count = 0;
  }
}

void TimeModel::estimate(const Plan& plan, TimeEstimate& out) {
  State& s = *state_;
  s.turn_to(plan);
  State::OfAxes& of = s.of_axes(plan);
  if (topologies::has_unlike_nodes(
          s.job.cluster)) {  // an order also decides which cards hold a stage
    s.time_step(plan, of, out);
    return;
  }
  for (const auto& [other, time] : s.timed) {
    if (other == of.placed) {
      out = time;
      return;
    }
  }
  s.time_step(plan, of, out);
  s.timed.emplace_back(of.placed, out);
}

}  // namespace trireme::planner
