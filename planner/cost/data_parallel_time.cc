#include "planner/cost/data_parallel_time.h"

#include <algorithm>
#include <cmath>

namespace trireme::planner {

using topologies::Collective;
using topologies::GroupShape;

namespace {

// Megatron's own bucket rule: max(40e6, 1e6 D) parameters; PyTorch DDP 25 MiB; DeepSpeed 5e8
// elements.
double buckets(const Job& job, double parameters, double ranks) {
  double size = std::max(40e6, 1e6 * ranks);
  if (job.framework.bucket_elements > 0) {
    size = static_cast<double>(job.framework.bucket_elements);
  }
  return std::max(1.0, std::ceil(parameters / size));
}

bool is_own(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme;
}

// Sharded gradients are reduced after every micro-batch; this project's runtime has no other way.
bool reduces_each(const Job& job) {
  return job.framework.reduce_every_micro_batch || is_own(job);
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
  // Each expert lives once in every `expert` ranks of the data-parallel ranks.
  const std::int64_t data = plan.context * plan.data_parallel();
  const std::int64_t copies =
      std::max<std::int64_t>(1, data / std::max<std::int64_t>(1, plan.expert));
  if (job_.model.moe) {
    groups.expert_shard = collectives_.shape(copies, plan.tensor * std::min(plan.expert, data));
  }
  const bool fp16 = job_.precision == topologies::Precision::kFp16;
  // Megatron keeps and reduces fp16 gradients as they are; fp32 accumulation comes with bf16.
  const double narrow = job_.framework.fp16_reduce_bytes;
  groups.reduce_bytes = fp16 && narrow > 0 ? narrow : job_.framework.reduce_bytes;
  groups.parameter_bytes = job_.framework.parameter_bytes;
  return groups;
}

// What stays exposed of communication that runs beside compute: what compute does not cover, at
// least the last bucket, and the share by which compute gets longer.
double DataParallelTimer::beside(double communication, double compute, double tail,
                                 DataParallelTime& time) const {
  const double hidden = std::max(0.0, std::min(communication - tail, compute));
  time.hidden += hidden;
  return communication - hidden + fit_.overlap_slowdown * hidden;
}

DataParallelTime DataParallelTimer::measure(const Plan& plan, const DataParallelInput& in,
                                            const Groups& groups) const {
  if (plan.context * plan.data_parallel() <= 1) {
    return {};
  }
  // DeepSpeed and this project keep ZeRO-2's parameters whole; FSDP gathers them unit by unit.
  const bool whole = job_.framework.sharder == Sharder::kZero || is_own(job_);
  const bool gathers =
      plan.sharding == Sharding::kFull || (plan.sharding == Sharding::kGradients && !whole);
  if (is_own(job_)) {
    DataParallelTime time = plan.sharding == Sharding::kFull ? own_units(plan, in, groups)
                                                             : own_whole(plan, in, groups);
    time.exposed += fit_.overlap_slowdown * std::max(0.0, time.hidden);
    return time;
  }
  return gathers ? gather_units(plan, in, groups) : reduce_whole(plan, in, groups);
}

// DDP, distributed optimizer, ZeRO-1 and ZeRO-2: gradients once a step (or every micro-batch),
// parameters gathered once where the optimizer is sharded.
DataParallelTime DataParallelTimer::reduce_whole(const Plan& plan, const DataParallelInput& in,
                                                 const Groups& groups) const {
  DataParallelTime time;
  const bool sharded = plan.sharding != Sharding::kNone;
  const double gradients = groups.reduce_bytes * in.dense_parameters * in.trained_share;
  double reduce = 0;
  double gather = 0;
  if (sharded) {
    reduce = collectives_.time(Collective::kReduceScatter, groups.shard, gradients);
    reduce += collectives_.time(Collective::kAllReduce, groups.replica,
                                gradients / static_cast<double>(groups.shard.ranks));
    gather = collectives_.time(Collective::kAllGather, groups.shard,
                               groups.parameter_bytes * in.dense_parameters * in.trained_share);
  } else {
    reduce = collectives_.time(Collective::kAllReduce, groups.replica, gradients);
  }
  if (in.expert_parameters > 0) {
    const double bytes = groups.reduce_bytes * in.expert_parameters * in.trained_expert_share;
    reduce += collectives_.time(sharded ? Collective::kReduceScatter : Collective::kAllReduce,
                                groups.expert_shard, bytes);
    if (sharded) {
      gather += collectives_.time(
          Collective::kAllGather, groups.expert_shard,
          groups.parameter_bytes * in.expert_parameters * in.trained_expert_share);
    }
  }
  const auto ranks = static_cast<double>(plan.data_parallel());
  const double parts = buckets(
      job_, in.dense_parameters * in.trained_share + in.expert_parameters * in.trained_expert_share,
      ranks);
  const bool overlap = overlaps_gradient_reduction(job_.framework);
  const bool every = plan.sharding == Sharding::kGradients && reduces_each(job_);
  const double times = every ? static_cast<double>(plan.micro_batches) : 1.0;
  time.exposed =
      overlap ? times * beside(reduce, in.backward, reduce / parts, time) : times * reduce;
  if (sharded) {
    const bool overlap_gather = overlaps_parameter_gather(job_.framework);
    time.exposed += overlap_gather ? beside(gather, in.forward, gather / parts, time) : gather;
  }
  return time;
}

// FSDP and ZeRO-3: every micro-batch gathers each unit one ahead of its compute, in backward again
// where it was resharded, and reduce-scatters the unit behind it. The root unit (embedding, head)
// has nothing to hide behind.
DataParallelTime DataParallelTimer::gather_units(const Plan& plan, const DataParallelInput& in,
                                                 const Groups& groups) const {
  DataParallelTime time;
  const double units = std::max(1.0, in.units);
  const double block = std::max(0.0, in.dense_parameters - in.root_parameters) / units;
  const double experts = in.expert_parameters / units;
  const auto unit_time = [&](Collective collective, double bytes_each) {
    return collectives_.time(collective, groups.shard, bytes_each * block) +
           collectives_.time(collective, groups.expert_shard, bytes_each * experts);
  };
  const double gather =
      unit_time(Collective::kAllGather, groups.parameter_bytes * in.gathered_share);
  double scatter = unit_time(Collective::kReduceScatter, groups.reduce_bytes * in.trained_share);
  const auto shards = static_cast<double>(groups.shard.ranks);
  scatter += collectives_.time(Collective::kAllReduce, groups.replica,
                               groups.reduce_bytes * in.trained_share * block / shards);
  const double root_gather = collectives_.time(Collective::kAllGather, groups.shard,
                                               groups.parameter_bytes * in.root_parameters);
  const double root_scatter =
      collectives_.time(Collective::kReduceScatter, groups.shard,
                        groups.reduce_bytes * in.trained_share * in.root_parameters) +
      collectives_.time(Collective::kAllReduce, groups.replica,
                        groups.reduce_bytes * in.trained_share * in.root_parameters / shards);

  // PyTorch's pipelining gathers a stage once and reduces it once (2.2).
  const bool once = plan.pipeline > 1 && job_.framework.sharder == Sharder::kFsdp2;
  const bool full = plan.sharding == Sharding::kFull && !once;
  const bool reshard = full && plan.reshard_after_forward && job_.framework.reshard_after_forward;
  const bool reduce_each = reduces_each(job_) && !once;
  const double m = static_cast<double>(plan.micro_batches);

  const auto side_by_side = [&](double communication, double compute) {
    return units * beside(communication, compute / units, 0, time);
  };
  const bool overlap = job_.framework.overlap_param_gather;
  const auto pass = [&](double communication, double compute) {
    return overlap ? side_by_side(communication, compute) : units * communication;
  };
  const double forward_gather = pass(gather, in.forward);
  const double backward_gather = reshard ? gather : 0;
  const double with_reduce = pass(backward_gather + scatter, in.backward);
  const double without_reduce = pass(backward_gather, in.backward);

  if (full) {
    const double gathers = reshard ? m : 1;
    time.exposed += gathers * forward_gather;
    time.exposed += reduce_each ? m * with_reduce : with_reduce + (m - 1) * without_reduce;
  } else {
    time.exposed += forward_gather + (reduce_each ? m * with_reduce : with_reduce);
  }
  time.exposed += copies(plan, in, reshard, reduce_each);
  const double root_times = job_.framework.root_unit_stays_gathered ? 1 : m;
  time.exposed += root_times * root_gather + (reduce_each ? m : 1) * root_scatter;
  return time;
}

// What FSDP copies beside computing (training_systems 2.2): the shard is cast, a gathered unit is
// copied out into its tensors (FSDP1 views them), gradients are copied in for the reduction or
// added to what waits for it.
double DataParallelTimer::copies(const Plan& plan, const DataParallelInput& in, bool reshard,
                                 bool reduce_each) const {
  const double parameters = in.dense_parameters + in.expert_parameters;
  const auto m = static_cast<double>(plan.micro_batches);
  const double shards = static_cast<double>(plan.sharded);
  const bool views =
      job_.framework.sharder == Sharder::kFsdp1 || job_.framework.sharder == Sharder::kMegatronFsdp;
  const double gathers = (reshard ? 2 : 1) * m;
  const bool frozen = job_.training.has_adapters();
  const double copy_out = views ? 0 : 2 * job_.framework.parameter_bytes * in.gathered_share;
  const double cast = job_.framework.fp32_shard_is_parameter && !frozen
                          ? (4 + job_.framework.parameter_bytes) / shards
                          : 0;
  const double reduced = job_.framework.parameter_bytes + job_.framework.reduce_bytes;
  const double added = job_.framework.parameter_bytes + 2 * job_.framework.reduce_bytes;
  const double reductions = reduce_each ? m : 1;
  const double bytes =
      parameters * (gathers * (copy_out + cast) +
                    in.trained_share * (reductions * reduced + (m - reductions) * added));
  return bytes / memory_rate_;
}

double state_rate(const Job& job, const topologies::OpCost& cost) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 30;
  const auto cast =
      is_own(job) ? cost.own_kernel(Kernel::kCast, Bytes(kLarge), 0) : std::optional<Seconds>();
  return cast ? static_cast<double>(kLarge) / cast->value : cost.memory_rate().value;
}

double optimizer_seconds(const Job& job, const Plan& plan, double parameters,
                         const topologies::OpCost& cost) {
  const Framework& framework = job.framework;
  double shards = 1;
  if (plan.sharding != Sharding::kNone) {
    shards = static_cast<double>(plan.sharded);
    if (framework.shard_over_context) {
      shards *= static_cast<double>(plan.context);
    }
  }
  const double local = parameters / shards;
  const bool gradients_sharded =
      plan.sharding == Sharding::kFull || plan.sharding == Sharding::kGradients;
  const double gradients = gradients_sharded ? local : parameters;
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
  // The norm reads and clipping reads and writes the shard; zeroing writes the whole gradients.
  // This project clips inside the step and writes gradients without zeroing them first; PyTorch
  // frees them.
  const double passes = (is_own(job) ? 1 : 3) * framework.gradient_bytes;
  const double zeroing = is_own(job) || torch ? 0 : gradients * framework.gradient_bytes;
  const double small = 40 * cost.memory_bound(Bytes(0), 1).value;
  const auto bytes = [](double value) { return Bytes(static_cast<std::int64_t>(value)); };
  if (is_own(job)) {
    const Kernel update = plan.sharding == Sharding::kNone ? Kernel::kAdamwCast : Kernel::kAdamw;
    const auto step = cost.own_kernel(update, bytes(local * state), 0);
    const auto norm = cost.own_kernel(Kernel::kSquaredNorm, bytes(local * passes), 0);
    if (step && norm) {
      return step->value + norm->value + small;
    }
  }
  return (local * (state + passes) + zeroing) / cost.memory_rate().value + small;
}

}  // namespace trireme::planner
