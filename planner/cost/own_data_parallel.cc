// Data-parallel time of this project's runtime, whose programs planner/lower writes: gathers and
// reductions have a stream each, a unit is a layer (FSDP: fsdp_unit layers), the embedding or the
// head. One unit is gathered ahead; with gradients reduced every micro-batch a whole gradient may
// be reduced while the next is computed.
#include <algorithm>

#include "planner/cost/data_parallel_time.h"
#include "planner/cost/layer_times.h"

namespace trireme::planner {

using topologies::Collective;

namespace {

double over(double communication, double compute) {
  return std::max(0.0, communication - compute);
}

// A stage's units, and seconds of compute of one.
struct StageUnits {
  double count = 1, parameters = 0;  // of layers
  double experts = 0;                // routed experts of one
  double embedding = 0, head = 0;    // parameters
  double forward = 0, backward = 0;  // compute of one
  double head_backward = 0;
};

StageUnits units_of(const DataParallelInput& in) {
  StageUnits units;
  units.count = std::max(1.0, in.units);
  units.parameters = std::max(0.0, in.dense_parameters - in.root_parameters) / units.count;
  units.experts = in.expert_parameters / units.count;
  units.embedding = in.embedding_parameters;
  units.head = in.root_parameters - in.embedding_parameters;
  units.forward = (in.forward - in.embedding_compute - in.head_forward) / units.count;
  units.backward = (in.backward - in.head_backward) / units.count;
  units.head_backward = in.head_backward;
  return units;
}

// GPipe's backwards follow each other.
bool backwards_only(const Plan& plan) {
  return plan.schedule == Schedule::kGpipe && plan.pipeline > 1 && plan.micro_batches > 1;
}

// Layers whose backward the head's reduction may run beside: the next one, and of the one after it
// what comes before its first weight gradient.
constexpr double kHeadWindow = 1.25;

// Exposed in one backward: the reduction of a unit must end before the second next unit begins, and
// the last two run beside what follows.
double exposed_reductions(const Plan& plan, const StageUnits& units, double unit, double head) {
  const double limited = backwards_only(plan) ? units.count : std::max(0.0, units.count - 2);
  // A chunk of one layer goes on to the next forward (GPipe: to the next head).
  const bool single = units.count < 2 * static_cast<double>(plan.virtual_pipeline);
  const double window =
      !single ? kHeadWindow * units.backward
              : units.backward + (backwards_only(plan) ? units.head_backward : units.forward);
  return limited * over(unit, units.backward) + over(head, window);
}

// The embedding's reduction must end before the fourth block after it: the next micro-batch's third
// layer, whose first may wait for its gather too (GPipe: the fourth backward).
double exposed_embedding(const Plan& plan, const DataParallelInput& in, const StageUnits& units,
                         double embedding, double waits) {
  return over(embedding, backwards_only(plan) ? 3 * units.backward
                                              : in.embedding_compute + 2 * units.forward + waits);
}

// What is left of the reductions (seconds of all) when the last backward ends, if each begins when
// its unit's gradients are whole.
double left_at_the_end(const Plan& plan, const DataParallelInput& in, const StageUnits& units,
                       double reductions) {
  if (splits_backward(plan)) {
    return over(reductions, in.weight_gradient * (1 - 1 / (units.count + 1)));
  }
  const double first_ready = units.head > 0 ? in.head_backward : units.backward;
  const auto chunks = static_cast<double>(plan.virtual_pipeline);
  if (chunks == 1) {
    return over(reductions, in.backward - first_ready);
  }
  // A chunk's units are whole when its own last micro-batch is; then the other chunks' last groups
  // of micro-batches follow.
  const auto group = static_cast<double>(std::min(plan.pipeline, plan.micro_batches));
  const double one = in.backward / chunks;
  return std::max(over(reductions / chunks, one - first_ready),
                  over(reductions, group * (chunks - 1) * one + one - first_ready));
}

}  // namespace

double DataParallelTimer::own_gather(const Groups& groups, double parameters) const {
  return collectives_.time(Collective::kAllGather, groups.shard,
                           groups.parameter_bytes * parameters);
}

// The own shard's masters to compute precision.
double DataParallelTimer::own_cast(const Groups& groups, double parameters) const {
  return (groups.parameter_bytes + 4) * parameters / static_cast<double>(groups.shard.ranks) /
         memory_rate_;
}

// Earlier micro-batches' gradients of the own shard added to a new one's; mean over micro-batches,
// of which the first has none.
double DataParallelTimer::own_sum(const Plan& plan, const Groups& groups, double parameters) const {
  const double later = 1 - 1 / static_cast<double>(plan.micro_batches);
  return later * 3 * groups.reduce_bytes * parameters / static_cast<double>(groups.shard.ranks) /
         memory_rate_;
}

double DataParallelTimer::own_scatter(const Groups& groups, double parameters) const {
  return collectives_.time(Collective::kReduceScatter, groups.shard,
                           groups.reduce_bytes * parameters);
}

double DataParallelTimer::own_experts(Collective collective, const Groups& groups,
                                      double parameters) const {
  const double bytes =
      collective == Collective::kAllGather ? groups.parameter_bytes : groups.reduce_bytes;
  return collectives_.time(collective, groups.expert_shard, bytes * parameters);
}

// Parameters whole. DDP and the distributed optimizer reduce after the last micro-batch, ZeRO-2
// after each; sharded optimizers gather at the start of the step, beside the first forward.
DataParallelTime DataParallelTimer::own_whole(const Plan& plan, const DataParallelInput& in,
                                              const Groups& groups) const {
  DataParallelTime time;
  StageUnits units = units_of(in);
  const bool sharded = plan.sharding != Sharding::kNone;
  const auto shards = sharded ? static_cast<double>(groups.shard.ranks) : 1.0;
  const auto replicate = [&](double parameters) {
    return collectives_.time(Collective::kAllReduce, groups.replica,
                             groups.reduce_bytes * parameters / shards);
  };
  const auto reduce = [&](double parameters) {
    return (sharded ? own_scatter(groups, parameters) : 0) + replicate(parameters);
  };
  const double experts = own_experts(sharded ? Collective::kReduceScatter : Collective::kAllReduce,
                                     groups, units.experts);
  const double m = static_cast<double>(plan.micro_batches);
  if (sharded) {
    const double unit = own_gather(groups, units.parameters) +
                        own_experts(Collective::kAllGather, groups, units.experts);
    const double first = own_gather(groups, units.embedding);
    const double all = first + units.count * unit + own_gather(groups, units.head);
    // All casts come before the first forward, each gather once its own is done.
    const double casts = own_cast(groups, units.count * units.parameters + units.head);
    time.compute_once = casts + own_cast(groups, units.embedding);
    time.exposed = std::max(over(first + over(unit, in.embedding_compute), casts),
                            over(all, casts + in.forward - in.head_forward));
    time.hidden = all - time.exposed;
  }
  const bool every =
      job_.framework.reduce_every_micro_batch || plan.sharding == Sharding::kGradients;
  const double last = in.embedding_parameters > 0 ? units.embedding : units.parameters;
  if (every) {
    const double unit =
        (sharded ? own_scatter(groups, units.parameters) : replicate(units.parameters)) + experts;
    const double head = sharded ? own_scatter(groups, units.head) : replicate(units.head);
    const double embedding = sharded ? own_scatter(groups, units.embedding) : 0;
    const double total = units.count * unit + head + embedding;
    if (sharded) {
      time.compute_backward = own_sum(plan, groups, in.dense_parameters);
      units.backward += own_sum(plan, groups, units.parameters);
    }
    time.per_micro_batch_backward = exposed_reductions(plan, units, unit, head) +
                                    exposed_embedding(plan, in, units, embedding, 0);
    const double beside =
        (backwards_only(plan) ? 0 : in.forward) + in.backward + time.compute_backward;
    time.per_micro_batch_backward += over(total, beside + time.per_micro_batch_backward);
    // After the last micro-batch the reductions still on the way, and the replicas' sums.
    const double waiting = over((units.count > 1 ? 2 : 1) * unit, units.backward);
    time.exposed += sharded ? own_scatter(groups, last) : replicate(last);
    time.exposed +=
        std::max(waiting,
                 sharded ? over(replicate(in.dense_parameters - last), in.backward) : 0.0) +
        (sharded ? replicate(last) : 0.0);
    time.hidden += m * (total - time.per_micro_batch_backward);
    return time;
  }
  const double total = units.count * (reduce(units.parameters) + experts) + reduce(units.head) +
                       reduce(units.embedding);
  const double exposed = job_.framework.overlap_grad_reduce
                             ? std::max(reduce(last), left_at_the_end(plan, in, units, total))
                             : total;
  time.exposed += exposed;
  time.hidden += total - exposed;
  return time;
}

// Fully sharded: a unit takes the longest of its compute, its gather and its reduction.
DataParallelTime DataParallelTimer::own_units(const Plan& plan, const DataParallelInput& in,
                                              const Groups& groups) const {
  DataParallelTime time;
  StageUnits units = units_of(in);
  const auto shards = static_cast<double>(groups.shard.ranks);
  const bool reshard = plan.reshard_after_forward && job_.framework.reshard_after_forward;
  const double gather = own_gather(groups, units.parameters) +
                        own_experts(Collective::kAllGather, groups, units.experts);
  const double again = reshard ? gather : 0;
  const double head = std::max(units.head, in.tied_head_parameters);
  const double head_gather = own_gather(groups, head);
  // A unit's window has the next unit's cast in it, and its own sum.
  const double cast = own_cast(groups, units.parameters);
  time.compute_forward = units.count * cast + own_cast(groups, head + units.embedding);
  time.compute_backward =
      (reshard ? units.count * cast : 0) + own_sum(plan, groups, in.dense_parameters);
  units.forward += cast;
  units.backward += (reshard ? cast : 0) + own_sum(plan, groups, units.parameters);
  const double scatter = own_scatter(groups, units.parameters) +
                         own_experts(Collective::kReduceScatter, groups, units.experts);
  const double head_scatter = own_scatter(groups, units.head);
  // The first unit of a micro-batch has only the embedding to hide behind, the head the last unit.
  const double before = in.embedding_parameters > 0 ? 2 * in.embedding_compute : units.forward;
  time.per_micro_batch_forward = (units.count - 1) * over(gather, units.forward) +
                                 over(head_gather, units.forward) + over(gather, before);
  time.per_micro_batch_backward = std::max(units.count * over(again, units.backward),
                                           exposed_reductions(plan, units, scatter, head_scatter));
  time.per_micro_batch_backward += exposed_embedding(
      plan, in, units, own_scatter(groups, units.embedding), over(gather, before));
  // Unless it is resharded, a unit is gathered once where another micro-batch is always under way:
  // everywhere under GPipe, else in all chunks but the model's last.
  const double each = reshard || plan.pipeline == 1       ? 1.0
                      : plan.schedule == Schedule::kGpipe ? 0.0
                      : in.head_forward > 0 ? 1 / static_cast<double>(plan.virtual_pipeline)
                                            : 0.0;
  time.exposed += (1 - each) * time.per_micro_batch_forward;
  time.per_micro_batch_forward *= each;
  time.compute_once += (1 - each) * time.compute_forward;
  time.compute_forward *= each;
  // Neither stream can do more than it has time for.
  const double gathers = each * (units.count * (gather + again) + head_gather);
  const double scatters =
      units.count * scatter + head_scatter + own_scatter(groups, units.embedding);
  const double backward = in.backward + time.compute_backward;
  const double cycle = in.forward + time.compute_forward + backward + time.per_micro_batch_forward +
                       time.per_micro_batch_backward;
  time.per_micro_batch_backward += over(std::max(gathers, scatters), cycle);
  if (backwards_only(plan)) {
    time.per_micro_batch_backward += over(scatters, backward + time.per_micro_batch_backward);
  }
  const double m = static_cast<double>(plan.micro_batches);
  time.hidden =
      m * (gathers + scatters - time.per_micro_batch_forward - time.per_micro_batch_backward);
  // Once a step: the first gathers, the reductions still on the way, the last one and its replicas'
  // sum.
  const double last = in.embedding_parameters > 0 ? units.embedding : units.parameters;
  const auto replicate = [&](double parameters) {
    return collectives_.time(Collective::kAllReduce, groups.replica,
                             groups.reduce_bytes * parameters / shards);
  };
  time.exposed += own_gather(groups, last) + own_scatter(groups, last) +
                  std::max(over(scatter, units.backward),
                           over(replicate(in.dense_parameters - last), in.backward)) +
                  replicate(last);
  return time;
}

}  // namespace trireme::planner
