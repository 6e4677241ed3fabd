#include "planner/step_times.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/cost/behaviour_fit.h"
#include "topologies/op_cost.h"

namespace trireme::planner {
namespace {

using topologies::Collective;
using topologies::GroupShape;

class OpTimer {
 public:
  OpTimer(const Job& job, const StepProgram& program)
      : job_(job),
        program_(program),
        cost_(job.cluster, job.profile),
        fit_(behaviour_fit(job.framework, job.profile)),
        launch_(to_sim_duration(Seconds(cost_.launch(1).value * fit_.host_factor))) {
    for (const Group& group : program.groups) {
      shapes_.push_back(shape_of_group(job.cluster, group));
    }
    // Neighbours on the stage axis; the slowest such pair.
    pair_ = topologies::group_shape(job.cluster, program.stages.degree, program.stages.stride);
    pair_.ranks_per_node = pair_.ranks_per_node >= pair_.ranks ? 2 : 1;
    pair_.ranks = 2;
    portable_attention_ =
        job.framework.name != "trireme" &&
        job.framework.implementation != models::Implementation::kTransformerEngine;
  }

  std::vector<OpTime> time_role(const Program& role) {
    role_ = &role;
    std::vector<SimDuration> works;
    works.reserve(role.works.size());
    for (const Work& work : role.works) {
      works.push_back(to_sim_duration(time_work(work)));
    }
    std::vector<OpTime> times;
    times.reserve(role.ops.size());
    for (const Op& op : role.ops) {
      const auto* compute = std::get_if<Compute>(&op.kind);
      const SimDuration duration = compute != nullptr ? works[compute->work] : time_transfer(op);
      times.push_back({duration, launch_});
    }
    return times;
  }

 private:
  [[nodiscard]] Seconds time_work(const Work& work) const {
    const auto& d = work.dims;
    if (work.kernel == Kernel::kMatmul) {
      return cost_.matmul({d[0], d[1], d[2], 1}, job_.precision);
    }
    if (work.kernel == Kernel::kModelledMatmul) {
      return cost_.matmul({d[0], d[1], d[2], d[3]}, job_.precision);
    }
    if (work.kernel == Kernel::kAttentionForward) {
      return time_attention(work, topologies::Pass::kForward);
    }
    if (work.kernel == Kernel::kAttentionBackward) {
      return time_attention(work, topologies::Pass::kBackward);
    }
    if (work.kernel == Kernel::kModelledAttention) {
      return time_modelled_attention(work);
    }
    return time_pass(work, work.kernel == Kernel::kModelledPass ? static_cast<int>(d[0]) : 1);
  }

  [[nodiscard]] Seconds time_modelled_attention(const Work& work) const {
    const auto& d = work.dims;
    const bool backward = d[7] != 0;
    return cost_.attention({.batch = d[0],
                            .heads = d[1],
                            .kv_heads = d[2],
                            .query_length = d[3],
                            .key_length = d[4],
                            .qk_dim = d[5],
                            .v_dim = d[6],
                            .causal = true,
                            .flash = true,
                            .portable = portable_attention_},
                           job_.precision,
                           backward ? topologies::Pass::kBackward : topologies::Pass::kForward);
  }

  [[nodiscard]] Seconds time_attention(const Work& work, topologies::Pass pass) const {
    const auto& d = work.dims;
    const std::int64_t keys = d[5] > 0 ? std::min(d[1], 2 * d[5]) : d[1];
    return cost_.attention({.batch = d[0],
                            .heads = d[2],
                            .kv_heads = d[3],
                            .query_length = d[1],
                            .key_length = keys,
                            .qk_dim = d[4],
                            .v_dim = d[4],
                            .causal = true,
                            .flash = true,
                            .portable = portable_attention_},
                           job_.precision, pass);
  }

  [[nodiscard]] Seconds time_pass(const Work& work, int kernels) const {
    const double bytes = static_cast<double>(work.traffic.value) * fit_.memory_traffic;
    return cost_.memory_bound(Bytes(static_cast<std::int64_t>(bytes)), kernels);
  }

  [[nodiscard]] Bytes operand_size(const Op& op, std::uint32_t position) const {
    return size_of(program_, *role_, role_->operands[op.operands.first + position]);
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
    } else if (std::holds_alternative<Copy>(op.kind)) {
      return to_sim_duration(cost_.memory_bound(operand_size(op, 0) * 2, 1));
    }
    const Bytes size = operand_size(op, ask.operand);
    const auto key = std::make_tuple(ask.collective, index_of(ask.group), size.value);
    const auto found = known_.find(key);
    if (found != known_.end()) {
      return found->second;
    }
    const GroupShape& shape = ask.group == kNoGroup ? pair_ : shapes_[index_of(ask.group)];
    const SimDuration duration = to_sim_duration(
        topologies::collective_time(job_.cluster, job_.profile, ask.collective, shape, size).time);
    known_.emplace(key, duration);
    return duration;
  }

  const Job& job_;
  const StepProgram& program_;
  const Program* role_ = nullptr;
  topologies::OpCost cost_;
  BehaviourFit fit_;
  SimDuration launch_;
  std::vector<GroupShape> shapes_;
  GroupShape pair_;
  bool portable_attention_ = false;
  std::map<std::tuple<Collective, std::uint32_t, std::int64_t>, SimDuration> known_;
};

}  // namespace

GroupShape shape_of_group(const topologies::Cluster& cluster, const Group& group) {
  std::vector<GroupAxis> axes = group.axes;
  std::sort(axes.begin(), axes.end(),
            [](const GroupAxis& a, const GroupAxis& b) { return a.stride < b.stride; });
  // Axes that continue each other are one.
  std::vector<GroupAxis> merged;
  for (const GroupAxis& axis : axes) {
    if (!merged.empty() && merged.back().stride * merged.back().degree == axis.stride) {
      merged.back().degree *= axis.degree;
    } else {
      merged.push_back(axis);
    }
  }
  if (merged.empty()) {
    return topologies::group_shape(cluster, 1, 1);
  }
  GroupShape shape = topologies::group_shape(cluster, merged[0].degree, merged[0].stride);
  for (std::size_t i = 1; i < merged.size(); ++i) {
    const GroupShape other = topologies::group_shape(cluster, merged[i].degree, merged[i].stride);
    shape.ranks *= other.ranks;
    shape.ranks_per_node *= other.ranks_per_node;
  }
  const std::int64_t in_use =
      std::min<std::int64_t>(cluster.node.gpus, std::max<std::int64_t>(1, cluster.gpus));
  shape.concurrent_per_node = std::max<std::int64_t>(1, in_use / shape.ranks_per_node);
  return shape;
}

StepTimes time_ops(const Job& job, const StepProgram& program) {
  OpTimer timer(job, program);
  StepTimes times;
  for (const Program& role : program.roles) {
    times.roles.push_back(timer.time_role(role));
  }
  return times;
}

}  // namespace trireme::planner
