// Data-parallel time of the programs that planner/lower writes: gathers and reductions have a
// stream each, a unit is a layer (FSDP: fsdp_unit layers), the embedding or the head. One unit is
// gathered ahead; with gradients reduced every micro-batch a whole gradient may be reduced while
// the next is computed.
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

StageUnits units_of(const DataParallelInput& in, const RunSharding& run) {
  StageUnits units;
  units.count = std::max(1.0, in.units);
  units.parameters = std::max(0.0, in.dense_parameters - in.root_parameters) / units.count;
  units.experts = in.expert_parameters / units.count;
  const bool one = run.root_unit && in.embedding_parameters > 0;
  units.embedding = one ? in.root_parameters : in.embedding_parameters;
  units.head = one ? 0 : in.root_parameters - in.embedding_parameters;
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

// What a micro-batch's first gather hides behind: the embedding, as the head's does behind the last
// unit. A root unit that stays gathered leaves it the backward of the micro-batch before.
double before_first_unit(const DataParallelInput& in, const StageUnits& units, bool root) {
  if (root) {
    return units.backward;
  }
  return in.embedding_parameters > 0 ? 2 * in.embedding_compute : units.forward;
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
             ? replicate_experts(at.groups, parameters)
             : collectives_.time(Collective::kReduceScatter, at.groups.expert_shard,
                                 at.groups.expert_reduce_bytes * parameters);
}

// How much longer compute takes beside that much communication.
double DataParallelTimer::slowed(double communication, double compute, double kernel_share) const {
  return fit_.overlap_slowdown * kernel_share * std::max(0.0, std::min(communication, compute));
}

double DataParallelTimer::gather_copies(const Case& at, double parameters) const {
  return at.copies.gather * parameters / memory_rate_;
}

// Mean over micro-batches, of which the first has no earlier gradients to add.
double DataParallelTimer::reduce_copies(const Case& at, double parameters) const {
  const double later = 1 - 1 / static_cast<double>(at.plan.micro_batches);
  return (at.copies.reduce + later * at.copies.sum) * parameters / memory_rate_;
}

double DataParallelTimer::replicate(const Case& at, double parameters) const {
  const double shards = at.run.sharding == Sharding::kNone
                            ? 1
                            : static_cast<double>(std::max<std::int64_t>(1, at.groups.shard.ranks));
  return collectives_.time(Collective::kAllReduce, at.groups.replica,
                           at.groups.reduce_bytes * parameters / shards);
}

// Once a step: the first gather, the reductions still on the way (`waiting`), the last one and its
// replicas' sum.
double DataParallelTimer::end_of_sharded(const Case& at, const DataParallelInput& in, double last,
                                         double waiting) const {
  const double sums = replicate(at, in.dense_parameters - last) +
                      replicate_experts(at.groups, in.expert_parameters);
  return gather(at.groups, last) + scatter(at.groups, last) +
         std::max(waiting, over(sums, in.backward)) + replicate(at, last);
}

// Parameters whole. DDP and the distributed optimizer reduce after the last micro-batch, ZeRO-2
// after each; sharded optimizers gather at the start of the step, beside the first forward.
DataParallelTime DataParallelTimer::units_whole(const Case& at, const DataParallelInput& in) const {
  const Plan& plan = at.plan;
  const Groups& groups = at.groups;
  DataParallelTime time;
  StageUnits units = units_of(in, at.run);
  const bool sharded = at.run.sharding != Sharding::kNone;
  const auto reduce = [&](double parameters) {
    return (sharded ? scatter(groups, parameters) : 0) + replicate(at, parameters);
  };
  const double expert_sums = reduce_experts(at, units.experts);
  const double m = static_cast<double>(plan.micro_batches);
  if (sharded) {
    const double unit = gather(groups, units.parameters) + gather_experts(groups, units.experts);
    const double first = gather(groups, units.embedding);
    const double all = first + units.count * unit + gather(groups, units.head);
    // All copies come before the first forward, each gather once its own is done.
    const double copies = gather_copies(at, units.count * units.parameters + units.head);
    time.compute_once = copies + gather_copies(at, units.embedding);
    time.exposed = overlaps_parameter_gather(job_.framework)
                       ? std::max(over(first + over(unit, in.embedding_compute), copies),
                                  over(all, copies + in.forward - in.head_forward))
                       : over(all, copies);
    time.hidden = all - time.exposed;
    time.exposed += slowed(time.hidden, in.forward, in.kernel_share);
  }
  const double last = in.embedding_parameters > 0 ? units.embedding : units.parameters;
  const bool own = job_.framework.implementation == models::Implementation::kTrireme;
  if ((own && job_.framework.reduce_every_micro_batch) || at.run.sharding == Sharding::kGradients) {
    const double unit =
        (sharded ? scatter(groups, units.parameters) : replicate(at, units.parameters)) +
        expert_sums;
    const double head = sharded ? scatter(groups, units.head) : replicate(at, units.head);
    const double embedding = sharded ? scatter(groups, units.embedding) : 0;
    const double total = units.count * unit + head + embedding;
    if (sharded) {
      time.compute_backward = reduce_copies(at, in.dense_parameters);
      units.backward += reduce_copies(at, units.parameters);
    }
    time.per_micro_batch_backward = exposed_reductions(plan, units, unit, head) +
                                    exposed_embedding(plan, in, units, embedding, 0);
    const double beside =
        (backwards_only(plan) ? 0 : in.forward) + in.backward + time.compute_backward;
    time.per_micro_batch_backward += over(total, beside + time.per_micro_batch_backward);
    // After the last micro-batch the reductions still on the way, and the replicas' sums.
    const double waiting = over((units.count > 1 ? 2 : 1) * unit, units.backward);
    time.exposed += sharded ? scatter(groups, last) : replicate(at, last);
    time.exposed +=
        std::max(waiting,
                 sharded ? over(replicate(at, in.dense_parameters - last), in.backward) : 0.0) +
        (sharded ? replicate(at, last) : 0.0);
    const double hidden = total - time.per_micro_batch_backward;
    time.per_micro_batch_backward += slowed(hidden, in.forward + in.backward, in.kernel_share);
    time.hidden += m * hidden;
    return time;
  }
  const double total = units.count * (reduce(units.parameters) + expert_sums) + reduce(units.head) +
                       reduce(units.embedding);
  const double exposed = overlaps_gradient_reduction(job_.framework)
                             ? std::max(reduce(last), left_at_the_end(plan, in, units, total))
                             : total;
  const double parameters = in.dense_parameters + in.expert_parameters;
  time.compute_backward = (1 - 1 / m) * at.copies.keep * parameters / memory_rate_;
  time.compute_once += at.copies.reduce * parameters / memory_rate_;
  // Between virtual chunks a chunk's reductions run beside the others' last group of micro-batches.
  const double group = plan.virtual_pipeline > 1
                           ? static_cast<double>(std::min(plan.pipeline, plan.micro_batches))
                           : 1.0;
  time.exposed += exposed + slowed(total - exposed, group * in.backward, in.kernel_share);
  time.hidden += total - exposed;
  return time;
}

// Fully sharded: a unit takes the longest of its compute, its gather and its reduction.
DataParallelTime DataParallelTimer::units_sharded(const Case& at,
                                                  const DataParallelInput& in) const {
  const Plan& plan = at.plan;
  const Groups& groups = at.groups;
  DataParallelTime time;
  StageUnits units = units_of(in, at.run);
  const bool root = at.run.root_unit && in.embedding_parameters > 0;
  const double one = gather(groups, units.parameters) + gather_experts(groups, units.experts);
  const double again = at.run.reshards ? one : 0;
  const double head = root ? 0 : std::max(units.head, in.tied_head_parameters);
  const double head_gather = gather(groups, head);
  // A unit's window has the next unit's copy in it, and its own sum.
  const double copy = gather_copies(at, units.parameters);
  time.compute_forward = units.count * copy + gather_copies(at, root ? 0 : head + units.embedding);
  time.compute_once = root ? gather_copies(at, units.embedding) : 0;
  time.compute_backward =
      (at.run.reshards ? units.count * copy : 0) + reduce_copies(at, in.dense_parameters);
  units.forward += copy;
  units.backward += (at.run.reshards ? copy : 0) + reduce_copies(at, units.parameters);
  const double unit_scatter = scatter(groups, units.parameters) + reduce_experts(at, units.experts);
  const double head_scatter = scatter(groups, units.head);
  // Beside a collective compute takes longer, which shows where it is the longer of the two.
  const double slower_forward = slowed(one, units.forward, in.kernel_share);
  const double slower_backward =
      slowed(std::max(again, unit_scatter), units.backward, in.kernel_share);
  units.forward += slower_forward;
  units.backward += slower_backward;
  time.compute_forward += units.count * slower_forward;
  time.compute_backward += units.count * slower_backward;
  const double before = before_first_unit(in, units, root);
  const bool overlap = overlaps_parameter_gather(job_.framework);
  const auto left = [&](double communication, double compute) {
    return overlap ? over(communication, compute) : communication;
  };
  time.per_micro_batch_forward = (units.count - 1) * left(one, units.forward) +
                                 left(head_gather, units.forward) + left(one, before);
  time.per_micro_batch_backward =
      std::max(units.count * left(again, units.backward),
               exposed_reductions(plan, units, unit_scatter, head_scatter));
  time.per_micro_batch_backward +=
      exposed_embedding(plan, in, units, scatter(groups, units.embedding), over(one, before));
  // Unless it is resharded, a unit is gathered once where another micro-batch is always under way:
  // everywhere under GPipe, else in all chunks but the model's last.
  const double each = at.run.reshards || plan.pipeline == 1 ? 1.0
                      : plan.schedule == Schedule::kGpipe   ? 0.0
                      : in.head_forward > 0 ? 1 / static_cast<double>(plan.virtual_pipeline)
                                            : 0.0;
  time.exposed += (1 - each) * time.per_micro_batch_forward;
  time.per_micro_batch_forward *= each;
  time.compute_once += (1 - each) * time.compute_forward;
  time.compute_forward *= each;
  // Neither stream can do more than it has time for. Over the network both have one link, which
  // carries them one after the other; in a pipeline the two mostly fall into different
  // micro-batches. This project's own programs are held to their longest path without contention,
  // which simulate adds.
  const bool own = job_.framework.implementation == models::Implementation::kTrireme;
  const bool network =
      !own && groups.shard.ranks_per_node < groups.shard.ranks && plan.pipeline == 1;
  const double gathers = each * (units.count * (one + again) + head_gather);
  const double scatters =
      units.count * unit_scatter + head_scatter + scatter(groups, units.embedding);
  const double backward = in.backward + time.compute_backward;
  const double cycle = in.forward + time.compute_forward + backward + time.per_micro_batch_forward +
                       time.per_micro_batch_backward;
  const double on_the_way = network ? gathers + scatters : std::max(gathers, scatters);
  time.per_micro_batch_backward += over(on_the_way, cycle);
  if (backwards_only(plan)) {
    time.per_micro_batch_backward += over(scatters, backward + time.per_micro_batch_backward);
  }
  const double m = static_cast<double>(plan.micro_batches);
  time.hidden =
      m * (gathers + scatters - time.per_micro_batch_forward - time.per_micro_batch_backward);
  // Once a step: the first gathers, the reductions still on the way, the last one and its replicas'
  // sum.
  const double last = in.embedding_parameters > 0 ? units.embedding : units.parameters;
  time.exposed += root ? over(one, in.embedding_compute) - over(one, before) : 0;
  time.exposed += end_of_sharded(at, in, last, over(unit_scatter, units.backward));
  return time;
}

}  // namespace trireme::planner
