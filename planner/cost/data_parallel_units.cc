// Data-parallel time of the programs that planner/lower writes: gathers and reductions have a
// stream each, a unit is a layer (FSDP: fsdp_unit layers), the embedding or the head. What is
// gathered or reduced every micro-batch is walked unit by unit; what is once a step has a form.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/cost/data_parallel_time.h"
#include "planner/cost/layer_times.h"
#include "planner/plan/schedule.h"

namespace trireme::planner {

using topologies::Collective;

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

// Seconds from the end of the last backward to that of its reductions, if each begins when its
// unit's gradients are whole: the head's first, the first `unit` layers' (a share of all) last.
double left_at_the_end(const Plan& plan, const DataParallelInput& in, const LastReductions& reduce,
                       double unit, double slowdown) {
  if (splits_backward(plan)) {
    const double window = in.weight_gradient * (1 - 0.5 * unit);
    return std::max(over(reduce.all, window),
                    reduce.last + stretch(reduce.slowing, window, slowdown));
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
  const double others = group * (chunks - 1) * one;
  return std::max({over(reduce.all / chunks, one - head_ready),
                   over(reduce.all, others + one - (reduce.head > 0 ? head_ready : first_ready)),
                   over(reduce.all - reduce.head, others + one - first_ready),
                   reduce.last + stretch(reduce.slowing, others + one - head_ready, slowdown)});
}

// Passes of a few micro-batches, and which of them stand for all others.
struct WalkedPasses {
  UnitPasses passes;
  std::array<double, kMostPasses> stands_for{};  // of a micro-batch's passes, how many are like it
};

WalkedPasses one_chunk(const Plan& plan, bool head) {
  WalkedPasses walked;
  const int count = static_cast<int>(std::min<std::int64_t>(3, plan.micro_batches));
  walked.passes.last_micro_batch = count - 1;
  const bool pipeline = plan.pipeline > 1;
  // Stages before the last have another micro-batch under way, GPipe's have all.
  const int ahead = pipeline && plan.schedule == Schedule::kGpipe ? count
                    : pipeline && !head                           ? std::min(2, count)
                                                                  : 1;
  std::array<std::size_t, 3> forward{};
  std::array<std::size_t, 3> backward{};
  const auto add = [&](bool is_forward, int micro_batch) {
    auto& places = is_forward ? forward : backward;
    places[static_cast<std::size_t>(micro_batch)] = walked.passes.count;
    walked.passes.add({.forward = is_forward,
                       .first = true,
                       .last = true,
                       .micro_batch = micro_batch,
                       .chunk = 0});
  };
  for (int i = 0; i < count + ahead; ++i) {
    if (i < count) {
      add(true, i);
    }
    if (i + 1 >= ahead && i + 1 - ahead < count) {
      add(false, i + 1 - ahead);
    }
  }
  const auto middle = static_cast<std::size_t>(count > 2 ? 1 : 0);
  const auto later = static_cast<std::size_t>(count > 1 ? 1 : 0);
  walked.stands_for[forward[later]] = walked.stands_for[backward[middle]] = 1;
  return walked;
}

// Chunks of one rank: the stage's first, its last, and those between.
enum class Place { kFirst, kBetween, kLast };

// Between warm-up and cool-down a forward of one chunk and a backward of another in turn: the
// stage's first and last, those between, its last and first. Before and after, micro-batches of
// one chunk follow each other. `alone`: the share of forwards, as of backwards, without a turn.
WalkedPasses chunks_in_turn(std::int64_t chunks, bool ends, double alone) {
  WalkedPasses walked;
  const auto add = [&](bool forward, Place place, int chunk, double count) {
    walked.stands_for[walked.passes.count] = count;
    walked.passes.add({.forward = forward,
                       .first = ends && place == Place::kFirst,
                       .last = ends && place == Place::kLast,
                       .micro_batch = static_cast<int>(walked.passes.count),
                       .chunk = chunk});
  };
  struct Kind {
    Place place;
    double count;
  };
  const auto all = static_cast<double>(chunks);
  const std::array<Kind, 3> kinds = {{{Place::kFirst, ends ? 1.0 : 0.0},
                                      {Place::kBetween, ends ? all - 2 : all},
                                      {Place::kLast, ends ? 1.0 : 0.0}}};
  const auto follow = [&](bool forward, const Kind& kind) {
    if (kind.count > 0) {
      add(forward, kind.place, static_cast<int>(kind.place), 0);
      add(forward, kind.place, static_cast<int>(kind.place), alone * kind.count);
    }
  };
  std::for_each(kinds.begin(), kinds.end(), [&](const Kind& kind) { follow(true, kind); });
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Place other = kinds[kinds.size() - 1 - i].place;
    for (int again = 0; again < 2 && kinds[i].count > 0; ++again) {
      const double count = again * (1 - alone) * kinds[i].count;
      add(true, kinds[i].place, static_cast<int>(kinds[i].place), count);
      add(false, other, other == Place::kBetween ? 3 : static_cast<int>(other), count);
    }
  }
  std::for_each(kinds.rbegin(), kinds.rend(), [&](const Kind& kind) { follow(false, kind); });
  walked.passes.last_micro_batch = static_cast<int>(walked.passes.count) - 1;
  return walked;
}

// Of an interleaved schedule's forwards, those before the first backward (training_systems 4), the
// mean over ranks.
double alone_share(const Plan& plan) {
  const auto p = static_cast<double>(plan.pipeline);
  const auto v = static_cast<double>(plan.virtual_pipeline);
  const double turns = static_cast<double>(plan.micro_batches) * v;
  const double warm_up = p - 1 + (v - 1) * static_cast<double>(group_size_of(plan));
  return std::min(1.0, warm_up / turns);
}

}  // namespace

double DataParallelTimer::gather(const Groups& groups, double parameters) const {
  return collectives_.time(Collective::kAllGather, groups.shard,
                           groups.parameter_bytes * parameters);
}

double DataParallelTimer::scatter(const Groups& groups, double parameters) const {
  return collectives_.time(Collective::kReduceScatter, groups.shard,
                           groups.reduce_bytes * parameters);
}

double DataParallelTimer::gather_experts(const Groups& groups, double parameters) const {
  return collectives_.time(Collective::kAllGather, groups.expert_shard,
                           groups.expert_parameter_bytes * parameters);
}

double DataParallelTimer::replicate_experts(const Groups& groups, double parameters) const {
  return collectives_.time(
      Collective::kAllReduce, groups.expert_replica,
      groups.expert_reduce_bytes * parameters /
          static_cast<double>(std::max<std::int64_t>(1, groups.expert_shard.ranks)));
}

double DataParallelTimer::reduce_experts(const Case& at, double parameters) const {
  return at.run.sharding == Sharding::kNone
             ? 0
             : collectives_.time(Collective::kReduceScatter, at.groups.expert_shard,
                                 at.groups.expert_reduce_bytes * parameters);
}

double DataParallelTimer::replicate(const Case& at, double parameters) const {
  const double shards = at.run.sharding == Sharding::kNone
                            ? 1
                            : static_cast<double>(std::max<std::int64_t>(1, at.groups.shard.ranks));
  return collectives_.time(Collective::kAllReduce, at.groups.replica,
                           at.groups.reduce_bytes * parameters / shards);
}

// Sharded optimizers gather at the start of the step, beside the first forward: all copies first,
// each gather once its own is done.
void DataParallelTimer::add_first_gathers(const Case& at, const DataParallelInput& in,
                                          DataParallelTime& time) const {
  const double units = 1 / in.unit_share;
  const UnitSizes sizes = sizes_of(in, at.run, units);
  const UnitSeconds layers = unit_of(at, sizes.layers, sizes.experts);
  const UnitSeconds embedding = unit_of(at, sizes.embedding, 0);
  const UnitSeconds head = unit_of(at, sizes.head, 0);
  const double all = embedding.gather + units * layers.gather + head.gather;
  const double copies = embedding.gather_copy + units * layers.gather_copy + head.gather_copy;
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
DataParallelTime DataParallelTimer::reduced_once(const Case& at,
                                                 const DataParallelInput& in) const {
  const Plan& plan = at.plan;
  DataParallelTime time;
  const double units = 1 / in.unit_share;
  const UnitSizes sizes = sizes_of(in, at.run, units);
  const bool sharded = at.run.sharding != Sharding::kNone;
  if (sharded) {
    add_first_gathers(at, in, time);
  }
  const auto reduce = [&](double parameters) {
    return (sharded ? scatter(at.groups, parameters) : 0) + replicate(at, parameters);
  };
  const double experts =
      reduce_experts(at, sizes.experts) + replicate_experts(at.groups, sizes.experts);
  LastReductions last;
  const double layers = reduce(sizes.layers) + experts;
  last.head = reduce(sizes.head);
  last.last = over(layers, in.embedding_backward) + reduce(sizes.embedding);
  last.all = units * layers + last.head + reduce(sizes.embedding);
  last.slowing =
      !sharded
          ? last.all - last.last
          : (units - 1) * (scatter(at.groups, sizes.layers) + reduce_experts(at, sizes.experts)) +
                scatter(at.groups, sizes.head);
  const double exposed =
      overlaps_gradient_reduction(job_.framework)
          ? left_at_the_end(plan, in, last, in.unit_share, fit_.overlap_slowdown * in.kernel_share)
          : last.all;
  const double m = static_cast<double>(plan.micro_batches);
  const auto copied = [&](double UnitCopies::*copy) {
    return (at.copies.*copy * in.dense_parameters + at.expert_copies.*copy * in.expert_parameters) /
           memory_rate_;
  };
  time.compute_backward = (1 - 1 / m) * copied(&UnitCopies::keep);
  time.compute_once += copied(&UnitCopies::reduce);
  time.exposed += exposed;
  time.hidden += std::max(0.0, last.all - exposed);
  return time;
}

// A unit's collectives and copies; its gradients' reductions the mean over micro-batches, of which
// the first has no earlier ones to add.
UnitSeconds DataParallelTimer::unit_of(const Case& at, double parameters, double experts) const {
  const double later = 1 - 1 / static_cast<double>(at.plan.micro_batches);
  const auto copied = [&](const UnitCopies& copies, double elements) {
    return (copies.reduce + later * copies.sum) * elements / memory_rate_;
  };
  const bool sharded = at.run.sharding != Sharding::kNone;
  UnitSeconds unit;
  unit.gather = gather(at.groups, parameters) + gather_experts(at.groups, experts);
  unit.gather_copy =
      (at.copies.gather * parameters + at.expert_copies.gather * experts) / memory_rate_;
  unit.reduce_copy = copied(at.copies, parameters) + copied(at.expert_copies, experts);
  const double copies = replicate(at, parameters) + replicate_experts(at.groups, experts);
  unit.reduce = sharded ? scatter(at.groups, parameters) + reduce_experts(at, experts) : copies;
  unit.replicate = sharded ? copies : 0;
  return unit;
}

UnitStage DataParallelTimer::walked_stage(const Case& at, const DataParallelInput& in) const {
  const UnitSizes sizes = sizes_of(in, at.run, std::max(1.0, in.units));
  const auto chunks = static_cast<double>(at.plan.virtual_pipeline);
  UnitStage stage;
  stage.units = static_cast<int>(std::max(1.0, std::round(in.units / chunks)));
  const double units = chunks * stage.units;
  stage.layers = unit_of(at, sizes.layers, sizes.experts);
  stage.layers.forward = (in.forward - in.embedding_compute - in.head_forward) / units;
  stage.layers.backward = (in.backward - in.embedding_backward - in.head_backward) / units;
  stage.layers.before_gradient = std::min(stage.layers.backward, in.before_gradients / units);
  const bool whole = at.run.root_unit && in.embedding_parameters > 0;
  stage.embedding = unit_of(at, sizes.embedding, 0);
  stage.embedding.forward = in.embedding_compute;
  stage.embedding.backward = in.embedding_backward;
  stage.head = unit_of(at, whole ? sizes.embedding : sizes.head, 0);
  stage.head.forward = in.head_forward;
  stage.head.backward = in.head_backward;
  stage.head.before_gradient = in.head_input_gradient;
  if (whole) {
    stage.head.reduce = stage.head.reduce_copy = stage.head.replicate = 0;
  }
  stage.has_embedding = in.embedding_parameters > 0;
  stage.has_head = in.head_forward > 0;
  stage.tied = whole || in.tied_head_parameters > 0;
  stage.ends_stay = at.run.sharding == Sharding::kFull && job_.framework.root_unit_stays_gathered;
  stage.reshards = at.run.reshards;
  // Chunks that stay gathered while another micro-batch is under way are gathered once.
  stage.gathers =
      at.run.sharding == Sharding::kFull && (at.run.reshards || at.plan.virtual_pipeline == 1);
  stage.overlaps = overlaps_parameter_gather(job_.framework);
  stage.ahead = job_.framework.prefetch_units;
  stage.slowdown = fit_.overlap_slowdown * in.kernel_share;
  return stage;
}

// Over the network gathers and reductions have one link, which carries them one after the other;
// in a pipeline the two mostly fall into different micro-batches. This project's own programs are
// held to their longest path without contention, which simulate adds.
bool DataParallelTimer::shares_network(const Case& at) const {
  return job_.framework.implementation != models::Implementation::kTrireme &&
         at.plan.pipeline == 1 && at.groups.shard.ranks_per_node < at.groups.shard.ranks;
}

// Gradients reduced every micro-batch, and under full sharding units gathered.
DataParallelTime DataParallelTimer::reduced_each(const Case& at,
                                                 const DataParallelInput& in) const {
  const Plan& plan = at.plan;
  DataParallelTime time;
  const bool full = at.run.sharding == Sharding::kFull;
  if (!full && at.run.sharding != Sharding::kNone) {
    add_first_gathers(at, in, time);
  }
  const UnitStage stage = walked_stage(at, in);
  const WalkedPasses walked =
      plan.virtual_pipeline > 1
          ? chunks_in_turn(plan.virtual_pipeline, stage.has_embedding || stage.has_head,
                           alone_share(plan))
          : one_chunk(plan, stage.has_head);
  const UnitWalk walk = walk_units(stage, walked.passes);
  double forward = 0;
  double backward = 0;
  for (std::size_t pass = 0; pass < walked.passes.count; ++pass) {
    (walked.passes.all[pass].forward ? forward : backward) +=
        walked.stands_for[pass] * walk.took[pass];
  }
  const double m = static_cast<double>(plan.micro_batches);
  const double units = std::max(1.0, in.units);
  const double ends = stage.embedding.reduce_copy + stage.head.reduce_copy;
  time.compute_backward = units * stage.layers.reduce_copy + ends;
  if (plan.pipeline == 1) {
    // All of it has been walked but micro-batches like the second.
    time.exposed += walk.end - static_cast<double>(walked.passes.count / 2) * (forward + backward);
  } else {
    const double chunks = static_cast<double>(plan.virtual_pipeline);
    time.exposed += std::max(0.0, walk.took[0] - forward / chunks) + walk.end - walk.compute_end;
  }
  time.per_micro_batch_forward = forward - in.forward;
  time.per_micro_batch_backward = backward - in.backward - time.compute_backward;
  if (full && shares_network(at)) {
    const double gathers = units * stage.layers.gather * (at.run.reshards ? 2 : 1);
    time.per_micro_batch_backward +=
        over(gathers + units * stage.layers.reduce, forward + backward);
  }
  const double moved = units * (stage.layers.reduce + (full ? stage.layers.gather : 0));
  time.hidden +=
      std::max(0.0, m * (moved - time.per_micro_batch_forward - time.per_micro_batch_backward));
  return time;
}

}  // namespace trireme::planner
