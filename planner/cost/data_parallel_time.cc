#include "planner/cost/data_parallel_time.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/own_experts.h"
#include "planner/cost/unit_link.h"

namespace trireme::planner {

using topologies::Collective;
using topologies::GroupShape;

namespace {

bool is_own(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme;
}

}  // namespace

DataParallelTimer::Groups DataParallelTimer::groups_of(const Plan& plan) const {
  Groups groups;
  const bool joined = job_.framework.shard_over_context && plan.context > 1;
  const bool sharded = plan.sharding != Sharding::kNone;
  if (sharded) {
    groups.shard = joined ? collectives_.joined_group(plan, Axis::kContext, Axis::kSharded)
                          : collectives_.group(plan, Axis::kSharded);
    groups.replica = collectives_.group(plan, Axis::kReplica);
    if (!joined && plan.context > 1) {
      groups.replica = collectives_.joined_group(plan, Axis::kContext, Axis::kReplica);
    }
  } else {
    groups.replica = plan.context > 1
                         ? collectives_.joined_group(plan, Axis::kContext, Axis::kReplica)
                         : collectives_.group(plan, Axis::kReplica);
  }
  if (job_.model.moe) {
    const ExpertRanks ranks = expert_ranks(job_, plan);
    const std::int64_t split = ranks.inner * ranks.experts;
    groups.expert_shard = collectives_.shape(ranks.shards, split);
    groups.expert_replica = collectives_.shape(ranks.copies / ranks.shards, split * ranks.shards);
  }
  return groups;
}

double reduce_bytes_of(const Job& job, bool sharded) {
  if (!sharded && job.framework.sharder == Sharder::kFsdp2) {
    return job.framework.gradient_bytes;
  }
  const bool fp16 = job.precision == topologies::Precision::kFp16;
  // Megatron keeps and reduces fp16 gradients as they are; fp32 accumulation comes with bf16.
  const double narrow = job.framework.fp16_reduce_bytes;
  return fp16 && narrow > 0 ? narrow : job.framework.reduce_bytes;
}

DataParallelTimer::OfPlan DataParallelTimer::of_plan(const Plan& plan) const {
  OfPlan of;
  of.groups = groups_of(plan);
  of.run = run_sharding(job_, plan);
  const auto copies_over = [&](const GroupShape& group) {
    return unit_copies(job_, of.run, std::max<std::int64_t>(1, group.ranks));
  };
  of.copies = copies_over(of.groups.shard);
  of.expert_copies = copies_over(of.groups.expert_shard);
  of.reduce_bytes = reduce_bytes_of(job_, plan.sharding != Sharding::kNone);
  return of;
}

// What is frozen is gathered in its own format and never reduced; a sharded optimizer gathers what
// it trained. This project casts masters alone.
DataParallelTimer::Elements DataParallelTimer::elements_of(const Case& at, double parameters,
                                                           double trained) const {
  const double reduced = trained * parameters;
  const double whole = at.in.gathered_share * parameters;
  const bool full = at.of.run.sharding == Sharding::kFull;
  return {.gathered = full ? whole : reduced,
          .cast = is_own(job_) ? reduced : whole,
          .reduced = reduced};
}

// A unit's collectives and copies; its gradients' reductions the mean over micro-batches, of which
// the first has no earlier ones to add.
UnitSeconds DataParallelTimer::timed_unit(const Case& at, const Elements& dense,
                                          const Elements& experts) const {
  const Groups& groups = at.of.groups;
  const double later = 1 - 1 / static_cast<double>(at.plan.micro_batches);
  const auto copied = [&](const UnitCopies& copies, double elements) {
    return (copies.reduce + later * copies.sum) * elements / memory_rate_;
  };
  const auto shards = [](const GroupShape& group) {
    return static_cast<double>(std::max<std::int64_t>(1, group.ranks));
  };
  // Adapters of this project are units beside those of the frozen weights, gathered after them.
  const bool apart =
      is_own(job_) && job_.training.has_adapters() && at.of.run.sharding == Sharding::kFull;
  const auto gather = [&](const GroupShape& group, const Elements& of) {
    const double bytes = job_.framework.parameter_bytes;
    return collectives_.time(Collective::kAllGather, group, bytes * of.gathered) +
           (apart && of.reduced > 0
                ? collectives_.time(Collective::kAllGather, group, bytes * of.reduced)
                : 0);
  };
  const bool sharded = at.of.run.sharding != Sharding::kNone;
  const double reduced = at.of.reduce_bytes * dense.reduced;
  const double reduced_experts = at.of.reduce_bytes * experts.reduced;
  UnitSeconds unit;
  unit.gather = gather(groups.shard, dense) + gather(groups.expert_shard, experts);
  unit.gather_copy =
      (at.of.copies.gather * dense.cast + at.of.expert_copies.gather * experts.cast) / memory_rate_;
  unit.reduce_copy =
      copied(at.of.copies, dense.reduced) + copied(at.of.expert_copies, experts.reduced);
  const double copies = collectives_.time(Collective::kAllReduce, groups.replica,
                                          sharded ? reduced / shards(groups.shard) : reduced) +
                        collectives_.time(Collective::kAllReduce, groups.expert_replica,
                                          reduced_experts / shards(groups.expert_shard));
  unit.reduce = copies;
  if (sharded) {
    unit.reduce =
        collectives_.time(Collective::kReduceScatter, groups.shard, reduced) +
        collectives_.time(Collective::kReduceScatter, groups.expert_shard, reduced_experts);
    unit.replicate = copies;
  }
  return unit;
}

DataParallelTime DataParallelTimer::measure(const Plan& plan, const DataParallelInput& in,
                                            double message, OfPlan& of) {
  const auto alone = [](const GroupShape& group) { return group.ranks <= 1; };
  if (alone(of.groups.shard) && alone(of.groups.replica) && alone(of.groups.expert_shard) &&
      alone(of.groups.expert_replica)) {
    return {.compute_backward = expert_sums(plan, in)};
  }
  const UnitTerms terms{plan.micro_batches, in.trained_of_unit, in.trained_experts_of_unit,
                        in.gathered_share};
  if (!(of.terms == terms)) {
    of.terms = terms;
    of.units = {};
  }
  const bool full = of.run.sharding == Sharding::kFull;
  const bool shards_gradients = (full || of.run.sharding == Sharding::kGradients) &&
                                std::max(of.groups.shard.ranks, of.groups.expert_shard.ranks) > 1;
  const bool each = shards_gradients || (is_own(job_) && job_.framework.reduce_every_micro_batch);
  const Case at{plan, in, message, of};
  if (each) {
    return reduced_each(at);
  }
  DataParallelTime time = reduced_once(at);
  time.compute_backward += expert_sums(plan, in);
  return time;
}

// Products of experts' gradients add to those of earlier micro-batches: what is there is read
// beside what a layer's own time has them write, and few rows are no cover for it.
double DataParallelTimer::expert_sums(const Plan& plan, const DataParallelInput& in) const {
  if (in.expert_parameters == 0 || !runs_own_experts(job_, plan)) {
    return 0;
  }
  constexpr double kRead = 4;  // bytes of an fp32 element
  const double later = 1 - 1 / static_cast<double>(plan.micro_batches);
  return later * kRead * in.trained_expert_share * in.expert_parameters / memory_rate_;
}

double state_rate(const Job& job, const topologies::OpCost& cost) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 30;
  const auto cast =
      is_own(job) ? cost.own_kernel(Kernel::kCast, Bytes(kLarge), 0) : std::optional<Seconds>();
  return cast ? static_cast<double>(kLarge) / cast->value : cost.memory_rate().value;
}

namespace {

// Bytes that an optimizer's step moves through memory.
struct StepBytes {
  double update = 0;   // states and gradient of the own shard read, states and parameter written
  double passes = 0;   // norm and clipping
  double zeroing = 0;  // of gradients for the next step
};

StepBytes step_bytes(const Job& job, const Plan& plan, const OptimizerElements& elements) {
  const Framework& framework = job.framework;
  const double local = elements.local;
  const bool gradients_sharded =
      plan.sharding == Sharding::kFull || plan.sharding == Sharding::kGradients;
  const double gradients = gradients_sharded ? local : elements.whole;
  // Moments and master copy read and written, gradient read, parameter written.
  double state = 2 * framework.moment_bytes + framework.gradient_bytes;
  if (job.optimizer == Optimizer::kSgd) {
    state = 2 * framework.sgd_moment_bytes + framework.gradient_bytes;
  } else if (job.optimizer == Optimizer::kAdam8bit) {
    state = 2 * 2.03 + framework.gradient_bytes;
  }
  state += framework.master_bytes > 0 ? 2 * framework.master_bytes + framework.parameter_bytes
                                      : 2 * framework.parameter_bytes;
  // PyTorch's fused Adam takes 2 ps more of each element than its bytes do, as long as 8 more bytes
  // (two H200: 8.4 ps of 28 bytes in fp32, 5.1 to 5.8 ps of 14 in bf16).
  const bool torch = framework.implementation == models::Implementation::kEagerTorch;
  state += torch && job.optimizer == Optimizer::kAdam ? 8 : 0;
  // PyTorch's foreach Adam passes over fp32 states once for each operation: decay (8), both moments
  // (12, 8 + 12), root (8), its scale (8) and epsilon (8), update (16), where one kernel takes 28
  // (Megatron-LM without Apex, traced on H200). Steps of PyTorch's own trainers do not show it.
  state += framework.foreach_optimizer && !torch && job.optimizer == Optimizer::kAdam ? 52 : 0;
  // The norm reads and clipping reads and writes the shard; zeroing writes the whole gradients.
  // This project clips inside the step and writes gradients without zeroing them first; PyTorch
  // frees them.
  return {.update = local * state,
          .passes = local * (is_own(job) ? 1 : 3) * framework.gradient_bytes,
          .zeroing = is_own(job) || torch ? 0 : gradients * framework.gradient_bytes};
}

Bytes as_bytes(double value) {
  return Bytes(static_cast<std::int64_t>(value));
}

}  // namespace

OptimizerWork optimizer_work(const Job& job, const Plan& plan, const OptimizerElements& elements) {
  const StepBytes bytes = step_bytes(job, plan, elements);
  return {as_bytes(bytes.update + bytes.passes + bytes.zeroing), 40};
}

double optimizer_seconds(const Job& job, const Plan& plan, const OptimizerElements& elements,
                         const topologies::OpCost& cost) {
  const OptimizerWork work = optimizer_work(job, plan, elements);
  if (is_own(job)) {
    const StepBytes bytes = step_bytes(job, plan, elements);
    const Kernel update = plan.sharding == Sharding::kNone ? Kernel::kAdamwCast : Kernel::kAdamw;
    const auto step = cost.own_kernel(update, as_bytes(bytes.update), 0);
    const auto norm = cost.own_kernel(Kernel::kSquaredNorm, as_bytes(bytes.passes), 0);
    if (step && norm) {
      return step->value + norm->value + cost.memory_bound(Bytes(0), work.kernels).value;
    }
  }
  return cost.memory_bound(work.traffic, work.kernels).value;
}

}  // namespace trireme::planner
