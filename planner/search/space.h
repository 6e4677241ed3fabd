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

// Who says no: the nearer to a layout, the earlier.
enum class RejectedBy : std::uint8_t {
  kProgramOfPipeline,  // the program cannot start this micro-batch, schedule or recompute
  kProgramOfDegrees,   // … these degrees or what is sharded over them
  kRule,
};

struct Rejection {
  RejectedBy by = RejectedBy::kRule;
  Rule rule = Rule::kGpuProduct;
  std::int64_t count = 0;  // branches cut, at the level where the rule speaks; layouts for kMemory
  Plan example;
  std::string detail;
};

// What the program that would run a job's plans can start: made once a job, and asked on any
// thread. Empty: all.
struct Acceptance {
  std::function<bool(const Plan&)> layout;
  std::function<std::string(const Plan&)> refusal;  // of one that it cannot start, in words

  [[nodiscard]] bool takes(const Plan& plan) const { return !layout || layout(plan); }
};
using Accepts = std::function<Acceptance(const Job&)>;

struct Space {
  std::vector<Degrees> degrees;
  std::vector<SpaceNode> nodes;
  std::size_t pipelines = 0;          // distinct SpaceNode::pipeline
  std::vector<Rejection> rejections;  // in the order of RejectedBy, then of Rule
  std::int64_t layouts = 0;
  std::array<std::vector<AxisOrder>, 32> orders;  // by the set of axes whose degree is above 1
  // Of them the usual one, in which experts are spread over neighbours.
  std::array<std::vector<AxisOrder>, 32> usual;
  Acceptance accepts;  // asked before anything of a layout is estimated
};

// Fills `space`, which must not be moved afterwards (its parts point into it). Degrees and what is
// sharded over them are left out where `accepts` refuses them in their plainest forms (one sequence
// a micro-batch or all sequences in one, nothing recomputed, no virtual stages), nodes where it
// refuses each of their shardings. Tensor parallelism goes without sequence parallelism where it
// refuses all that has it, and none is asked for. Throws Error where more than 60 million layouts
// are legal.
void enumerate(const Job& job, const std::vector<Constraint>& constraints,
               const FixedChoices& fixed, Space& space, const Accepts& accepts = {});

void set_sharding(const ShardingChoice& choice, Plan& plan);
Plan with_sharding(const Plan& plan, const ShardingChoice& choice);

}  // namespace trireme::planner
