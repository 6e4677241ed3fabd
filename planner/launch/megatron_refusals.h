// What Megatron-LM and Megatron-Bridge refuse of a plan beyond check_plan's rules, and the choices
// that both formats write in their own words.
#pragma once

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Whose sharded data parallelism runs.
enum class MegatronSharding {
  kReplicated,            // DDP
  kDistributedOptimizer,  // DDP with the optimizer's states sharded
  kMegatronFsdp,
  kTorchFsdp2,
};
MegatronSharding megatron_sharding(const LaunchPlan& launch);

// Throws Error, naming the axis, when Megatron has no such plan. `who` is the format's name.
void refuse_plans_unknown_to_megatron(const LaunchPlan& launch, std::string_view who);

// Ranks are tp, cp, pp, dp instead of tp, cp, dp, pp (--use-tp-pp-dp-mapping).
bool pipeline_before_data(const Plan& plan);
// What Megatron-FSDP calls the plan's sharding.
std::string_view fsdp_strategy(Sharding sharding);
// Whether the host may queue on one connection only: Megatron asks for it before Blackwell, where
// tensor or context parallelism must keep the order of launches; FSDP asks for the opposite.
bool wants_one_connection(const LaunchPlan& launch);

struct MegatronOverlap {
  bool grad_reduce = false, param_gather = false;
};
MegatronOverlap megatron_overlap(const LaunchPlan& launch);

// Bytes of one moment of Adam where it is not fp32, else 0; 1 is fp8, 2 is bf16.
int small_moment_bytes(const Job& job);

}  // namespace trireme::planner
