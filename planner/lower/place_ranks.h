// Pass 1: the ranks' grid, and from it the groups that communicate and the axis that tells roles
// apart.
#pragma once

#include "core/program.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner::lowering {

// Ids into StepProgram::groups; kNoGroup where the group would have one member.
struct Groups {
  GroupId tensor = kNoGroup;
  GroupId shard = kNoGroup;    // holds one copy of what the plan shards
  GroupId replica = kNoGroup;  // copies of those
  GroupId data = kNoGroup;     // shard and replica together: ranks with different micro-batches
  GroupId norm =
      kNoGroup;  // ranks that together hold each gradient once (but for what tensor ranks share)
  GroupId context = kNoGroup;
  GroupId expert = kNoGroup;                                   // ranks that hold different experts
  GroupId expert_tensor = kNoGroup;                            // ranks that share one expert
  GroupId expert_shard = kNoGroup, expert_replica = kNoGroup;  // copies of the same experts
  GroupId tied = kNoGroup;  // first and last stage, when they share the embedding
};

// Fills ranks, stages, groups, tensor, data of the program.
Groups place_ranks(const Job& job, const Plan& plan, StepProgram& program);

}  // namespace trireme::planner::lowering
