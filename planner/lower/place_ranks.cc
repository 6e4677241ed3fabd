#include "planner/lower/place_ranks.h"

#include "core/error.h"
#include "planner/plan/shape.h"
#include "planner/plan/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>

namespace trireme::planner::lowering {
namespace {

GroupAxis axis_of(const Plan& plan, Axis axis) {
  const std::int64_t degree = degree_of(plan, axis);
  const std::int64_t stride = stride_of(plan, axis);
  return {degree, stride, degree * stride};
}

GroupId add_group(StepProgram& program, Group group) {
  if (group_size(group) == 1) {
    return kNoGroup;
  }
  program.groups.push_back(std::move(group));
  return static_cast<GroupId>(program.groups.size() - 1);
}

Group group_over(const Plan& plan, std::string name, std::initializer_list<Axis> axes) {
  Group group{std::move(name), {}};
  for (const Axis axis : axes) {
    if (degree_of(plan, axis) > 1) {
      group.axes.push_back(axis_of(plan, axis));
    }
  }
  return group;
}

// `degree` ranks of one stage, `stride` apart among that stage's ranks. Where the pipeline is not
// the slowest axis, other stages' ranks stand between those inside and outside of it.
Group group_in_stage(const Plan& plan, std::string name, std::int64_t degree, std::int64_t stride) {
  const std::int64_t within = stride_of(plan, Axis::kPipeline);  // a stage's neighbouring ranks
  if (plan.pipeline == 1 || stride * degree <= within) {
    return {std::move(name), {{degree, stride, degree * stride}}};
  }
  const std::int64_t inside = std::max<std::int64_t>(within / stride, 1);
  if (degree % inside != 0 || std::max(stride, within) % std::min(stride, within) != 0) {
    throw Error(short_form(plan),
                fmt::format("the {} ranks of a stage's {} group lie unevenly on both sides of the "
                            "pipeline; place the pipeline last (order-...-pp)",
                            degree, name));
  }
  const std::int64_t outside = degree / inside;
  const std::int64_t apart = std::max(stride, within) * plan.pipeline;
  Group group{std::move(name), {}};
  if (inside > 1) {
    group.axes.push_back({inside, stride, inside * stride});
  }
  group.axes.push_back({outside, apart, outside * apart});
  return group;
}

// Experts are spread over the ranks inside a pipeline stage, nearest first; what is left of those
// holds copies.
void place_experts(const Plan& plan, const ExpertRanks& ranks, StepProgram& program,
                   Groups& groups) {
  const std::int64_t split = ranks.inner * ranks.experts;
  const auto add = [&](std::string name, std::int64_t degree, std::int64_t stride) {
    return add_group(program, group_in_stage(plan, std::move(name), degree, stride));
  };
  groups.expert = add("expert", ranks.experts, ranks.inner);
  if (ranks.inner > 1) {
    groups.expert_tensor = add("expert_tensor", ranks.inner, 1);
  }
  groups.expert_shard = add("expert_shard", ranks.shards, split);
  groups.expert_replica = add("expert_replica", ranks.copies / ranks.shards, split * ranks.shards);
}

}  // namespace

Groups place_ranks(const Job& job, const Plan& plan, StepProgram& program) {
  const bool own = job.framework.implementation == models::Implementation::kTrireme;
  program.ranks = plan.gpus();
  program.stages = axis_of(plan, Axis::kPipeline);
  Groups groups;
  groups.tensor = add_group(program, group_over(plan, "tensor", {Axis::kTensor}));
  groups.data = add_group(
      program, group_over(plan, "data", {Axis::kContext, Axis::kSharded, Axis::kReplica}));
  groups.context = add_group(program, group_over(plan, "context", {Axis::kContext}));
  if (plan.sharding == Sharding::kNone) {
    groups.replica = groups.data;
    groups.norm = add_group(program, group_over(plan, "model", {Axis::kTensor, Axis::kPipeline}));
  } else {
    const bool joined = job.framework.shard_over_context;
    groups.shard =
        add_group(program, joined ? group_over(plan, "shard", {Axis::kContext, Axis::kSharded})
                                  : group_over(plan, "shard", {Axis::kSharded}));
    groups.replica =
        add_group(program, joined ? group_over(plan, "replica", {Axis::kReplica})
                                  : group_over(plan, "replica", {Axis::kContext, Axis::kReplica}));
    groups.norm = add_group(
        program, own && joined
                     ? group_over(plan, "model",
                                  {Axis::kTensor, Axis::kContext, Axis::kSharded, Axis::kPipeline})
                     : group_over(plan, "model", {Axis::kTensor, Axis::kSharded, Axis::kPipeline}));
  }
  if (shares_table(job, plan)) {
    const GroupAxis stages = program.stages;
    const std::int64_t other = plan.pipeline - (plan.prediction_apart ? 2 : 1);
    groups.tied = add_group(program, {"tied", {{2, other * stages.stride, stages.period}}});
  }
  if (job.model.moe) {
    place_experts(plan, expert_ranks(job, plan), program, groups);
  }
  if (own && job.model.moe) {
    // Experts are held once by other ranks than everything else: the sum of squares runs over all,
    // of which each divides by how many hold the same.
    groups.norm = add_group(program, group_over(plan, "world",
                                                {Axis::kTensor, Axis::kContext, Axis::kSharded,
                                                 Axis::kReplica, Axis::kPipeline}));
  }
  program.tensor = groups.tensor;
  program.data = groups.data;
  if (groups.context != kNoGroup && own) {
    program.data = add_group(program, group_over(plan, "batch", {Axis::kSharded, Axis::kReplica}));
    program.context = groups.context;
  }
  if (own && job.model.moe) {
    program.expert = groups.expert;
    program.expert_tensor = groups.expert_tensor;
  }
  return groups;
}

}  // namespace trireme::planner::lowering
