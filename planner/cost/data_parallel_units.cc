// Data-parallel time of the programs that planner/lower writes: gathers and reductions have a
// stream each, a unit is a layer (FSDP: fsdp_unit layers), the embedding or the head. What is
// gathered or reduced every micro-batch is walked unit by unit; what is once a step has a form.
#include <algorithm>
#include <bit>
#include <cmath>

#include "planner/cost/data_parallel_time.h"
#include "planner/cost/layer_times.h"
#include "planner/cost/stage_memory.h"
#include "planner/cost/unit_link.h"
#include "planner/plan/schedule_times.h"

namespace trireme::planner {

using topologies::Collective;
using topologies::GroupShape;

namespace {

double over(double communication, double compute) {
  return std::max(0.0, communication - compute);
}

// Parameters of a stage's units.
struct UnitSizes {
  double layers = 0, experts = 0;  // of one unit of layers: its own, and routed experts
  double embedding = 0, head = 0;
};

UnitSizes sizes_of(const DataParallelInput& in, const RunSharding& run, double units) {
  const bool one = run.root_unit && in.embedding_parameters > 0;
  return {.layers = std::max(0.0, in.dense_parameters - in.root_parameters) / units,
          .experts = in.expert_parameters / units,
          .embedding = one ? in.root_parameters : in.embedding_parameters,
          .head = one ? 0 : in.root_parameters - in.embedding_parameters};
}

// Units of layers that backward goes through.
double trained_units(const DataParallelInput& in, double units) {
  return std::max(1.0, units - in.frozen_units);
}

// How much longer compute of `compute` seconds takes beside `communication`, which is at most as
// long as that makes it.
double stretch(double communication, double compute, double slowdown) {
  return slowdown * std::clamp(communication, 0.0, compute / (1 - slowdown));
}

// Reductions after the last micro-batch: of all units, of the head, and of those that are whole
// when the last backward ends. Sums of shards over their copies do not slow compute.
struct LastReductions {
  double all = 0, head = 0, last = 0;
  double slowing = 0;  // of all but the last
};

// What reductions add behind the backward of the last micro-batch, and of that what they make it
// take longer: the stages before wait for its gradient.
struct AtTheEnd {
  double exposed = 0, late = 0;
};

// In a V: seconds between a rank's last gradients of its second chunk and those of its first one.
double between_last_gradients(const Plan& plan, const DataParallelInput& in) {
  const double chunks = kChunksInV;
  const PassSeconds one{in.forward / chunks, (in.backward - in.weight_gradient) / chunks,
                        in.weight_gradient / chunks};
  Plan shorter = plan;  // the end of a longer step is the same
  shorter.micro_batches = std::min(plan.micro_batches, 2 * plan.pipeline);
  const ScheduleTimes times = time_schedule(
      shorter, std::vector<PassSeconds>(static_cast<std::size_t>(plan.pipeline * kChunksInV), one),
      0);
  const auto rank = static_cast<std::size_t>(in.rank);
  const std::vector<Action>& actions = times.actions[rank];
  const auto second = std::find_if(actions.rbegin(), actions.rend(), [](const Action& action) {
    return action.chunk > 0 &&
           (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient);
  });
  const auto place = static_cast<std::size_t>(actions.rend() - second) - 1;
  const double input = second->kind == ActionKind::kBackward ? one.input_gradient : 0;
  const double ended = times.begins[rank][place] + input + one.weight_gradient;
  return times.begins[rank].back() - ended;
}

// Where weight gradients end the step: nobody waits for them.
AtTheEnd left_of_weights(const Plan& plan, const DataParallelInput& in,
                         const LastReductions& reduce, double unit, double slowdown) {
  if (!is_in_v(plan.schedule)) {
    const double window = in.weight_gradient * (1 - 0.5 * unit);
    return {.exposed = std::max(over(reduce.all, window),
                                reduce.last + stretch(reduce.slowing, window, slowdown))};
  }
  const double chunk = in.weight_gradient / kChunksInV;
  const double window = std::max(0.0, chunk - 0.5 * unit * in.weight_gradient);
  const double longest = window + between_last_gradients(plan, in) + chunk;
  return {.exposed = std::max({over(reduce.all, longest), over(reduce.all / kChunksInV, window),
                               reduce.last + stretch(reduce.slowing, longest, slowdown)})};
}

// If each reduction begins when its unit's gradients are whole: the head's first, the first `unit`
// layers' (a share of all) last.
AtTheEnd left_at_the_end(const Plan& plan, const DataParallelInput& in, double message,
                         const LastReductions& reduce, double unit, double slowdown) {
  if (ends_with_weights(plan)) {
    return left_of_weights(plan, in, reduce, unit, slowdown);
  }
  const auto chunks = static_cast<double>(plan.virtual_pipeline);
  // A chunk's units are whole when its own last micro-batch is; then the other chunks' last groups
  // of micro-batches follow.
  const auto group = static_cast<double>(std::min(plan.pipeline, plan.micro_batches));
  const double one = in.backward / chunks;
  // The first unit of a backward is what is left when all others are whole ones.
  const double units = std::max(1.0, std::ceil(1 / unit - 1e-6));
  const double rest = std::max(1e-9, 1 - (units - 1) * unit);
  const double head_ready = in.head_backward;
  const double first_ready = head_ready + (in.backward - in.head_backward) * rest / chunks;
  const double round = static_cast<double>(plan.pipeline) * (one + message);
  const double others = (chunks - 1) * std::max(group * one, message > 0 ? round : 0);
  const double longer = stretch(reduce.slowing, others + one - head_ready, slowdown);
  return {.exposed = std::max(
              {over(reduce.all / chunks, one - head_ready),
               over(reduce.all, others + one - (reduce.head > 0 ? head_ready : first_ready)),
               over(reduce.all - reduce.head, others + one - first_ready), reduce.last + longer}),
          .late = plan.virtual_pipeline == 1 ? longer : 0};
}

// Reductions of the last backward that have one input at a time, as FSDP2 has it: before a unit's
// gradients are copied to it the reduction of the unit before is over. The stage before waits for
// nothing of the last unit's. Copies are not counted.
class OneByOne {
 public:
  explicit OneByOne(double slowdown) : slowdown_(slowdown) {}
  void visit(double backward, const UnitSeconds& unit) {
    const double busy = std::max(0.0, scattered_ - now_);
    now_ += backward + slowdown_ * std::min(busy, backward / (1 - slowdown_));
    compute_ += backward;
    late_ = now_ - compute_;
    now_ = std::max(now_, scattered_);
    scattered_ = std::max(now_, summed_) + unit.reduce;
    summed_ = scattered_ + unit.replicate;
  }
  // Passes of other micro-batches, which begin when the last copy is made; the next gradient comes
  // `waited` later than without the other ranks' reductions.
  void pass(double seconds, double waited) {
    compute_ += seconds + waited;
    now_ = std::max(now_ + seconds, compute_ + late_);
  }
  [[nodiscard]] double late() const { return late_; }
  [[nodiscard]] AtTheEnd end() const { return {std::max(now_, summed_) - compute_, late_}; }

 private:
  double slowdown_;
  double now_ = 0, compute_ = 0;
  double scattered_ = 0, summed_ = 0;  // ends of a reduction over shards, and over their copies
  double late_ = 0;
};

AtTheEnd left_one_by_one(const Plan& plan, const DataParallelInput& in,
                         const std::array<const UnitSeconds*, 3>& units, double slowdown) {
  const auto chunks = static_cast<double>(plan.virtual_pipeline);
  const double count = std::max(1.0, std::round(trained_units(in, in.units) / chunks));
  const double body = in.backward - in.head_backward - in.embedding_backward;
  const double others = static_cast<double>(std::min(plan.pipeline, plan.micro_batches) - 1);
  OneByOne backward(slowdown);
  if (in.head_backward > 0) {
    backward.visit(in.head_backward, *units[static_cast<std::size_t>(UnitKind::kHead)]);
  }
  double late = 0;  // of the chunks so far
  for (std::int64_t chunk = 0; chunk < plan.virtual_pipeline; ++chunk) {
    // Meanwhile the other ranks are late in the chunk before, as this one was.
    const double waited = static_cast<double>(plan.pipeline - 1) * (backward.late() - late);
    late = backward.late();
    backward.pass(chunk > 0 ? others * in.backward / chunks : 0, chunk > 0 ? waited : 0);
    for (std::int64_t unit = 0; static_cast<double>(unit) < count; ++unit) {
      backward.visit(body / (chunks * count), *units[static_cast<std::size_t>(UnitKind::kLayers)]);
    }
  }
  if (in.embedding_backward > 0) {
    backward.visit(in.embedding_backward, *units[static_cast<std::size_t>(UnitKind::kEmbedding)]);
  }
  return backward.end();
}

// How often a rank of an interleaved pipeline gathers its chunks in a step, all together, if each
// stays gathered while a micro-batch is under way in it. Turn by turn, a forward of one chunk is
// followed by a backward of the mirrored one, 2 (p - 1 - rank) + (v - 1) p turns behind: the last
// backwards of a group of micro-batches come before the next group's first forward in the later
// chunks only, and in the last rank's last chunk each before the next forward.
double gathers_of_chunks(const Plan& plan, std::int64_t rank) {
  const std::int64_t p = group_size_of(plan);
  const std::int64_t v = plan.virtual_pipeline;
  const std::int64_t behind = 2 * (plan.pipeline - 1 - rank);
  const std::int64_t groups = (plan.micro_batches + p - 1) / p;
  std::int64_t gathers = 0;
  for (std::int64_t chunk = 0; chunk < v; ++chunk) {
    const bool lets_go = (v - 2 - 2 * chunk) * p + behind + p - 1 < 0;
    gathers += chunk == v - 1 && behind == 0 ? plan.micro_batches : lets_go ? groups : 1;
  }
  return static_cast<double>(gathers);
}

// So far apart only by rounding.
bool same(double a, double b) {
  return std::abs(a - b) <= 1e-12 * std::abs(a);
}

}  // namespace

// Of layers whose last unit is smaller a part counts as such.
DataParallelTimer::Units DataParallelTimer::whole_units(const Case& at) const {
  const double units = 1 / at.in.unit_share;
  const UnitSizes sizes = sizes_of(at.in, at.of.run, units);
  return {.count = units,
          .layers = unit_of(at, UnitKind::kLayers, sizes.layers, sizes.experts),
          .embedding = unit_of(at, UnitKind::kEmbedding, sizes.embedding, 0),
          .head = unit_of(at, UnitKind::kHead, sizes.head, 0)};
}

// Sharded optimizers gather at the start of the step, beside the first forward: all copies first,
// each gather once its own is done.
void DataParallelTimer::add_first_gathers(const Case& at, const Units& of,
                                          DataParallelTime& time) const {
  const DataParallelInput& in = at.in;
  const auto& [units, layers, embedding, head] = of;
  const double trained = trained_units(in, units);
  const double all = embedding.gather + trained * layers.gather + head.gather;
  const double copies = embedding.gather_copy + trained * layers.gather_copy + head.gather_copy;
  time.compute_once = copies;
  const double beside = copies + in.forward - in.head_forward;
  const double slowdown = fit_.overlap_slowdown * in.kernel_share;
  time.exposed = overlaps_parameter_gather(job_.framework)
                     ? std::max({over(embedding.gather + over(layers.gather, in.embedding_compute),
                                      copies - embedding.gather_copy),
                                 over(all, beside), stretch(all, beside, slowdown)})
                     : over(all, copies);
  time.hidden = std::max(0.0, all - time.exposed);
}

// DDP and the distributed optimizer reduce after the last micro-batch.
DataParallelTime DataParallelTimer::reduced_once(const Case& at) const {
  const Plan& plan = at.plan;
  const DataParallelInput& in = at.in;
  DataParallelTime time;
  const Units of = whole_units(at);
  const auto& [units, layer, embedding, head] = of;
  if (at.of.run.sharding != Sharding::kNone) {
    add_first_gathers(at, of, time);
  }
  const auto all_of = [](const UnitSeconds& unit) { return unit.reduce + unit.replicate; };
  const double reduced = trained_units(in, units);
  LastReductions last;
  last.head = all_of(head);
  last.last = over(all_of(layer), in.embedding_backward) + all_of(embedding);
  last.all = reduced * all_of(layer) + last.head + all_of(embedding);
  last.slowing = at.of.groups.shard.ranks > 1 ? (reduced - 1) * layer.reduce + head.reduce
                                              : last.all - last.last;
  const double slowdown = fit_.overlap_slowdown * in.kernel_share;
  const bool one_by_one =
      has_torch_states(job_) && at.of.groups.shard.ranks > 1 && !ends_with_weights(plan);
  const AtTheEnd end = !overlaps_gradient_reduction(job_.framework) ? AtTheEnd{last.all, 0}
                       : one_by_one
                           ? left_one_by_one(plan, in, {&embedding, &layer, &head}, slowdown)
                           : left_at_the_end(plan, in, at.message, last, 1 / reduced, slowdown);
  const double m = static_cast<double>(plan.micro_batches);
  const auto copied = [&](double UnitCopies::*copy) {
    return (at.of.copies.*copy * in.trained_share * in.dense_parameters +
            at.of.expert_copies.*copy * in.trained_expert_share * in.expert_parameters) /
           memory_rate_;
  };
  time.compute_backward = (1 - 1 / m) * copied(&UnitCopies::keep);
  time.compute_once += copied(&UnitCopies::reduce);
  time.exposed += end.exposed;
  time.late = end.late + (one_by_one ? (1 - 1 / reduced) * copied(&UnitCopies::reduce) : 0);
  time.hidden += std::max(0.0, last.all - end.exposed);
  return time;
}

const UnitSeconds& DataParallelTimer::unit_of(const Case& at, UnitKind kind, double parameters,
                                              double experts) const {
  static constexpr UnitSeconds kNothing;
  if (parameters + experts <= 0) {
    return kNothing;
  }
  KnownUnit& known = at.of.units[static_cast<std::size_t>(kind)];
  // Of another plan the very same: what is asked before must not show.
  const auto alike = [&](double a, double b) { return known.of_this_plan ? same(a, b) : a == b; };
  if (!alike(known.parameters, parameters) || !alike(known.experts, experts)) {
    known.parameters = parameters;
    known.experts = experts;
    known.seconds = timed_unit(
        at, elements_of(at, parameters, at.in.trained_of_unit[static_cast<std::size_t>(kind)]),
        elements_of(at, experts, at.in.trained_experts_of_unit));
  }
  known.of_this_plan = true;
  return known.seconds;
}

UnitStage DataParallelTimer::walked_stage(const Case& at) const {
  const DataParallelInput& in = at.in;
  const UnitSizes sizes = sizes_of(in, at.of.run, std::max(1.0, in.units));
  const auto chunks = static_cast<double>(at.plan.virtual_pipeline);
  UnitStage stage;
  stage.units = static_cast<int>(std::max(1.0, std::round(in.units / chunks)));
  stage.frozen = std::min(stage.units, static_cast<int>(in.frozen_units));
  const double units = chunks * stage.units;
  const double back = chunks * std::max(1, stage.units - stage.frozen);
  stage.layers = unit_of(at, UnitKind::kLayers, sizes.layers, sizes.experts);
  stage.layers.forward = (in.forward - in.embedding_compute - in.head_forward) / units;
  stage.layers.backward = (in.backward - in.embedding_backward - in.head_backward) / back;
  stage.layers.before_gradient = std::min(stage.layers.backward, in.before_gradients / back);
  const bool whole = at.of.run.root_unit && in.embedding_parameters > 0;
  stage.embedding = unit_of(at, UnitKind::kEmbedding, sizes.embedding, 0);
  stage.embedding.forward = in.embedding_compute;
  stage.embedding.backward = in.embedding_backward;
  stage.head = whole ? unit_of(at, UnitKind::kEmbedding, sizes.embedding, 0)
                     : unit_of(at, UnitKind::kHead, sizes.head, 0);
  stage.head.forward = in.head_forward;
  stage.head.backward = in.head_backward;
  stage.head.before_gradient = in.head_input_gradient;
  if (whole) {
    stage.head.reduce = stage.head.reduce_copy = stage.head.replicate = 0;
  }
  stage.has_embedding = in.embedding_parameters > 0;
  stage.frozen_embedding = in.trained_of_unit[static_cast<std::size_t>(UnitKind::kEmbedding)] <= 0;
  stage.has_head = in.head_forward > 0;
  stage.tied = whole || in.tied_head_parameters > 0;
  stage.ends_stay =
      at.of.run.sharding == Sharding::kFull && job_.framework.root_unit_stays_gathered;
  // What no backward goes through is let go after the forward.
  stage.reshards = at.of.run.reshards || 2 * stage.frozen > stage.units;
  // Chunks that stay gathered while another micro-batch is under way are gathered once.
  stage.gathers = at.of.run.sharding == Sharding::kFull &&
                  (at.of.run.reshards || at.plan.virtual_pipeline == 1);
  stage.overlaps = overlaps_parameter_gather(job_.framework);
  stage.one_link = takes_turns(job_, at.plan, at.of.groups.shard);
  stage.one_input = job_.framework.implementation != models::Implementation::kTrireme &&
                    at.of.run.sharding == Sharding::kFull;
  stage.ahead = job_.framework.prefetch_units;
  stage.slowdown = fit_.overlap_slowdown * in.kernel_share;
  return stage;
}

const DataParallelTimer::Walked& DataParallelTimer::walked_of(const PassPattern& pattern,
                                                              const UnitStage& stage) {
  const WalkedKey key{.pattern = pattern, .shape = unit_shape(stage)};
  if (const Walked* found = walked_.find(key)) {
    return *found;
  }
  const WalkedPasses passes = walked_passes(pattern);
  return walked_.insert(key, {passes, list_visits(key.shape, passes.passes)});
}

// Gradients reduced every micro-batch, and under full sharding units gathered.
DataParallelTime DataParallelTimer::reduced_each(const Case& at) {
  const Plan& plan = at.plan;
  const DataParallelInput& in = at.in;
  DataParallelTime time;
  const bool full = at.of.run.sharding == Sharding::kFull;
  if (!full && at.of.run.sharding != Sharding::kNone) {
    add_first_gathers(at, whole_units(at), time);
  }
  const UnitStage stage = walked_stage(at);
  const PassPattern pattern = pass_pattern(plan, stage.has_embedding, stage.has_head);
  const Walked& walked = walked_of(pattern, stage);
  const PassCounts counts = pass_counts(plan, pattern);
  const UnitWalk& walk = walks_.walk(stage, std::bit_cast<std::uint32_t>(pattern), walked.schedule);
  const UnitPasses& passes = walked.passes.passes;
  double forward = 0;
  double backward = 0;
  for (const WalkedPasses::Like& like : walked.passes.likes) {
    (passes.all[like.pass].forward ? forward : backward) += counts.of(like) * walk.took[like.pass];
  }
  const double m = static_cast<double>(plan.micro_batches);
  const double units = std::max(1.0, in.units);
  const double back = trained_units(in, units);
  const double ends = stage.embedding.reduce_copy + stage.head.reduce_copy;
  time.compute_backward = back * stage.layers.reduce_copy + ends;
  if (plan.pipeline == 1) {
    // All of it has been walked but micro-batches like the second.
    const std::size_t pairs = passes.count / 2;
    time.exposed += walk.end - static_cast<double>(pairs) * (forward + backward);
  } else {
    const double chunks = static_cast<double>(plan.virtual_pipeline);
    time.exposed += std::max(0.0, walk.took[0] - forward / chunks) + walk.end - walk.compute_end;
  }
  if (full && !stage.gathers) {
    const double each =
        std::max(over(stage.layers.gather, stage.layers.forward),
                 stretch(stage.layers.gather, stage.layers.forward, stage.slowdown));
    forward += gathers_of_chunks(plan, in.rank) / m * std::max(0, stage.units - stage.ahead) * each;
  }
  time.per_micro_batch_forward = forward - in.forward;
  time.per_micro_batch_backward = backward - in.backward - time.compute_backward;
  const double moved = back * stage.layers.reduce + (full ? units * stage.layers.gather : 0);
  time.hidden +=
      std::max(0.0, m * (moved - time.per_micro_batch_forward - time.per_micro_batch_backward));
  return time;
}

}  // namespace trireme::planner
