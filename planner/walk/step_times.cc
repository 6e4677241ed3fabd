#include "planner/walk/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/rendezvous.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/cost/data_parallel_time.h"
#include "planner/cost/group_shape.h"
#include "planner/cost/kept_on_host.h"
#include "planner/plan/host_counts.h"
#include "planner/plan/stage_groups.h"
#include "planner/walk/expert_overlap.h"
#include "planner/walk/host_times.h"
#include "planner/walk/work_times.h"
#include "topologies/node_groups.h"
#include "topologies/op_cost.h"

namespace trireme::planner {
namespace {

using topologies::Collective;
using topologies::GroupShape;

// The simulated clock ends after 106 days; ranks that wait for each other add up their times.
constexpr Seconds kRoleLongest(1e5);

// An op's duration; one that no step has is refused before the conversion leaves 64 bits.
SimDuration duration_of(Seconds time) {
  if (!(time.value <= kRoleLongest.value)) {
    throw Error("layout", fmt::format("an op of the step takes {:.3g} s; steps of up to {:.0f} s "
                                      "are timed op by op",
                                      time.value, kRoleLongest.value));
  }
  return to_sim_duration(time);
}

WorkPlace place_of(const Op& op) {
  return op.origin.layer < 0                         ? WorkPlace::kOutside
         : op.origin.phase == Phase::kWeightGradient ? WorkPlace::kWeightGradient
                                                     : WorkPlace::kLayer;
}

class OpTimer {
 public:
  OpTimer(const Job& job, const StepProgram& program)
      : job_(job),
        program_(program),
        cost_(job.cluster, job.profile),
        fit_(behaviour_fit(job)),
        work_(job, cost_, fit_),
        counts_(host_counts_of(job.framework)),
        host_(host_of(job)),
        launch_seconds_(cost_.launch(1).value * fit_.host_factor) {
    for (const Group& group : program.groups) {
      shapes_.push_back(shape_of_group(job.cluster, group));
    }
    pair_ = neighbours(
        topologies::group_shape(job.cluster, program.stages.degree, program.stages.stride));
  }

  std::vector<OpTime> time_role(const Program& role) {
    role_ = &role;
    // By place and work, as they come up.
    std::array<std::vector<std::optional<OpTime>>, 3> works;
    works.fill(std::vector<std::optional<OpTime>>(role.works.size()));
    const SimDuration launch = duration_of(Seconds(launch_seconds_));
    sharded_ = std::any_of(role.units.begin(), role.units.end(),
                           [](const ParameterUnit& unit) { return unit.shard != kNoGroup; });
    std::vector<OpTime> times;
    times.reserve(role.ops.size());
    for (const Op& op : role.ops) {
      if (const auto* compute = std::get_if<Compute>(&op.kind)) {
        std::optional<OpTime>& known = works[static_cast<std::size_t>(place_of(op))][compute->work];
        if (!known) {
          known = time_compute(role.works[compute->work], place_of(op));
        }
        times.push_back(*known);
      } else {
        times.push_back({time_transfer(op), launch});
        // Sums of shards over their copies move little memory: llama-2-7b on 128 A100, sharded over
        // nodes' eight and summed over 16 nodes, hides them whole (fsdp_misc-0001).
        if (sharded_ && op.origin.phase == Phase::kGradientReduce &&
            std::holds_alternative<AllReduce>(op.kind)) {
          times.back().apart = times.back().duration;
        }
      }
    }
    expose_exchanges(job_, fit_, program_, role, times);
    end_steps(role, times);
    add_host_times({job_, fit_, program_, role, cost_.launch(1).value}, times);
    double sum = 0;
    for (const OpTime& time : times) {
      sum += to_seconds(time.duration).value + to_seconds(time.launch).value;
    }
    if (sum > kRoleLongest.value) {
      throw Error("layout", fmt::format("a rank's ops take {:.3g} s; steps of up to {:.0f} s are "
                                        "timed op by op",
                                        sum, kRoleLongest.value));
    }
    if (!times.empty()) {
      times.front().launch += duration_of(Seconds(fit_.step_seconds));
    }
    return times;
  }

 private:
  // What ends a step waits for the host, where that takes longer than the GPU.
  void end_steps(const Program& role, std::vector<OpTime>& times) const {
    for (std::size_t i = 0; counts_ != nullptr && i < times.size(); ++i) {
      const bool ends = role.ops[i].origin.phase == Phase::kOptimizer &&
                        std::holds_alternative<Compute>(role.ops[i].kind);
      times[i].duration = ends ? std::max(times[i].duration, times[i].launch) : times[i].duration;
    }
  }

  [[nodiscard]] OpTime time_compute(const Work& work, WorkPlace place) const {
    return {duration_of(work_.time(work, place)),
            duration_of(Seconds(launch_seconds_ * work_.launches(work)))};
  }

  [[nodiscard]] Bytes operand_size(const Op& op, std::uint32_t position) const {
    return size_of(program_, *role_, role_->operands[op.operands.first + position]);
  }

  // States come while others go; what a forward kept has its way alone but for a pipeline's.
  [[nodiscard]] HostWays ways_of(const Op& op) const {
    return op.origin.phase == Phase::kOptimizer ? HostWays::kBoth
                                                : ways_of_kept(program_.stages.degree);
  }

  [[nodiscard]] SimDuration time_copy(const Op& op) const {
    const auto on_host = [&](std::uint32_t position) {
      const Operand& operand = role_->operands[op.operands.first + position];
      return role_->buffers[index_of(operand.buffer)].host;
    };
    return on_host(0) || on_host(1)
               ? duration_of(Seconds(host_copy_seconds(host_, operand_size(op, 0), ways_of(op))))
               : duration_of(cost_.memory_bound(operand_size(op, 0) * 2, 1));
  }

  // nccl-tests' sizes: the gathered total for gather and scatter.
  SimDuration time_transfer(const Op& op) {
    struct Ask {
      Collective collective = Collective::kSendRecv;
      GroupId group = kNoGroup;
      std::uint32_t operand = 0;
    } ask;
    if (const auto* all_reduce = std::get_if<AllReduce>(&op.kind)) {
      ask = {Collective::kAllReduce, all_reduce->group, 0};
    } else if (const auto* all_gather = std::get_if<AllGather>(&op.kind)) {
      ask = {Collective::kAllGather, all_gather->group, 1};
    } else if (const auto* reduce_scatter = std::get_if<ReduceScatter>(&op.kind)) {
      ask = {Collective::kReduceScatter, reduce_scatter->group, 0};
    } else if (const auto* all_to_all = std::get_if<AllToAll>(&op.kind)) {
      ask = {Collective::kAllToAll, all_to_all->group, 0};
    } else if (const auto* broadcast = std::get_if<Broadcast>(&op.kind)) {
      ask = {Collective::kBroadcast, broadcast->group, 0};
    } else if (const auto* shift = std::get_if<Shift>(&op.kind)) {
      ask = {Collective::kSendRecv, shift->group, 0};
    } else if (std::holds_alternative<Copy>(op.kind)) {
      return time_copy(op);
    }
    Bytes size = operand_size(op, ask.operand);
    if (const auto* rows = std::get_if<AllToAll>(&op.kind); rows != nullptr && rows->row > 0) {
      size = std::min(size, operand_size(op, 1));  // the other has room for an uneven load
    }
    if (op.origin.phase == Phase::kGradientReduce) {
      // The program has gradients in the type that memory asks for, whatever goes over the wire.
      const Operand& operand = role_->operands[op.operands.first + ask.operand];
      const double wire = static_cast<double>(operand.count) * reduce_bytes_of(job_, sharded_);
      size = Bytes(static_cast<std::int64_t>(wire));
    }
    const auto key = std::make_tuple(ask.collective, index_of(ask.group), size.value);
    const auto found = known_.find(key);
    if (found != known_.end()) {
      return found->second;
    }
    const bool message = ask.group == kNoGroup;
    const bool shifts = !message && ask.collective == Collective::kSendRecv;
    const GroupShape shape = message  ? pair_
                             : shifts ? neighbours(shapes_[index_of(ask.group)])
                                      : shapes_[index_of(ask.group)];
    Seconds time =
        topologies::collective_time(job_.cluster, job_.profile, ask.collective, shape, size).time;
    if (message) {
      const auto bytes = static_cast<double>(size.value);
      time = Seconds(message_seconds(fit_, time.value, bytes) + fit_.exchange_seconds);
    }
    const SimDuration duration = duration_of(time);
    known_.emplace(key, duration);
    return duration;
  }

  const Job& job_;
  const StepProgram& program_;
  const Program* role_ = nullptr;
  bool sharded_ = false;  // any of its units
  topologies::OpCost cost_;
  BehaviourFit fit_;
  WorkTimer work_;
  const HostCounts* counts_;  // nothing: kernels are counted
  HostMachine host_;
  double launch_seconds_ = 0;
  std::vector<GroupShape> shapes_;
  GroupShape pair_;
  std::map<std::tuple<Collective, std::uint32_t, std::int64_t>, SimDuration> known_;
};

double kernel_seconds(const Program& role, const std::vector<OpTime>& times) {
  double seconds = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    seconds += std::holds_alternative<Compute>(role.ops[i].kind)
                   ? to_seconds(times[i].duration).value
                   : 0.0;
  }
  return seconds;
}

// Ranks that do the same on unlike cards meet in collectives: between those the card that takes
// longer for all its kernels sets the pace. Not the slower one of each op: a fast card waits for
// its host where the slow one computes.
void keep_slower(const Program& role, std::vector<OpTime>& times, std::vector<OpTime> others) {
  if (times.empty()) {
    times = std::move(others);
    return;
  }
  if (kernel_seconds(role, others) > kernel_seconds(role, times)) {
    std::swap(times, others);
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (std::holds_alternative<Compute>(role.ops[i].kind)) {
      continue;
    }
    times[i].duration = std::max(times[i].duration, others[i].duration);
    times[i].launch = std::max(times[i].launch, others[i].launch);
    times[i].apart = std::max(times[i].apart, others[i].apart);
  }
}

}  // namespace

StepTimes time_ops(const Job& job, const StepProgram& program) {
  StepTimes times;
  if (!topologies::has_unlike_nodes(job.cluster)) {
    OpTimer timer(job, program);
    for (const Program& role : program.roles) {
      times.roles.push_back(timer.time_role(role));
    }
    return times;
  }
  times.roles.resize(program.roles.size());
  for (std::size_t group = 0; group < job.cluster.groups.size(); ++group) {
    Job view = job;
    view.cluster = topologies::viewed_from(job.cluster, group);
    OpTimer timer(view, program);
    for (std::size_t stage = 0; stage < program.roles.size(); ++stage) {
      const std::uint32_t groups =
          groups_of_stage(job.cluster, program.stages.stride, program.stages.degree,
                          static_cast<std::int64_t>(stage));
      if ((groups >> group & 1U) != 0) {
        keep_slower(program.roles[stage], times.roles[stage],
                    timer.time_role(program.roles[stage]));
      }
    }
  }
  return times;
}

}  // namespace trireme::planner
