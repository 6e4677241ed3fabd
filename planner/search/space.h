// Every legal layout of a job, level by level, so that whole branches can be bounded and counted
// without being walked: degrees > (virtual stages, schedule, micro-batch, recompute) > what is
// sharded over whom > order of the axes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/rules.h"
#include "planner/search/constraint.h"
#include "planner/search/orders.h"

namespace trireme::planner {

// What is sharded over how many of the data-parallel ranks.
struct ShardingChoice {
  Sharding sharding = Sharding::kNone;
  std::int64_t sharded = 1, replicas = 1;
  bool reshard_after_forward = true;
  const std::vector<AxisOrder>* orders = nullptr;  // the legal ones; owned by the space
  std::vector<Placement> placements = {};          // what each of them decides
};

// tp, pp, cp, ep, etp, and the data-parallel rest.
struct Degrees {
  Plan base;  // replicas = all data-parallel ranks, sharding none
  std::vector<ShardingChoice> shardings;
  std::int64_t layouts = 0;  // of all shardings: sum of their orders
};

// What one pipeline does: virtual stages, schedule, micro-batch and recompute. All of a node's
// layouts share their compute time.
struct SpaceNode {
  std::size_t degrees = 0;   // index into Space::degrees
  std::size_t pipeline = 0;  // nodes of one (degrees, vpp, schedule) share it
  Plan plan;                 // sharding and order still those of the base
  bool leanest = false;      // of its pipeline: smallest micro-batch, most recompute
};

struct Rejection {
  Rule rule = Rule::kGpuProduct;
  std::int64_t count = 0;  // branches cut, at the level where the rule speaks; layouts for kMemory
  Plan example;
  std::string detail;
};

// Whether the program that would run a plan of a job can be told it: made once a job, and asked of
// its plans on any thread.
using AcceptsPlan = std::function<bool(const Plan&)>;
using Accepts = std::function<AcceptsPlan(const Job&)>;

struct Space {
  std::vector<Degrees> degrees;
  std::vector<SpaceNode> nodes;
  std::size_t pipelines = 0;          // distinct SpaceNode::pipeline
  std::vector<Rejection> rejections;  // in the order of Rule
  std::int64_t layouts = 0;
  std::array<std::vector<AxisOrder>, 32> orders;  // by the set of axes whose degree is above 1
  // Of them the usual one, in which experts are spread over neighbours.
  std::array<std::vector<AxisOrder>, 32> usual;
  AcceptsPlan accepts;  // what may enter the answer; empty: all
};

// Fills `space`, which must not be moved afterwards (its parts point into it). Degrees and what is
// sharded over them are left out where `accepts` refuses them in their plainest forms: in the usual
// order, one sequence a micro-batch or all sequences in one, nothing recomputed, no virtual stages.
// Throws Error where more than 60 million layouts are legal.
void enumerate(const Job& job, const std::vector<Constraint>& constraints,
               const FixedChoices& fixed, Space& space, const Accepts& accepts = {});

void set_sharding(const ShardingChoice& choice, Plan& plan);
Plan with_sharding(const Plan& plan, const ShardingChoice& choice);

// How many layers of a (virtual) stage recompute where not all of them do: its quarters.
std::vector<std::int64_t> partly_recomputed(const Job& job, const Plan& plan);

std::vector<std::int64_t> divisors_of(std::int64_t number);

}  // namespace trireme::planner
