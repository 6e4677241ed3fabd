// Source: accelerate 16cb6eb8, parallelism_config.py and utils/dataclasses.py.
#include "planner/launch/accelerate_refusals.h"

#include <fmt/format.h>

namespace trireme::planner {
namespace {

void refuse_axes(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  refuse_other_orders(plan, "accelerate");
  if (plan.pipeline > 1) {
    refuse("pp",
           "accelerate has no pipeline parallelism; pp 1, or --format torchtitan or megatron, "
           "would be right");
  }
  if (plan.expert > 1) {
    refuse("ep",
           "accelerate has no expert parallelism; ep 1, or --format torchtitan or megatron, "
           "would be right");
  }
  if (plan.tensor > 1 && plan.sequence_parallel) {
    refuse("sequence_parallel",
           "transformers' tensor-parallel plans keep norms and residuals "
           "whole; --no-sequence-parallel would be right");
  }
  if (launch.job.model.moe && plan.expert_tensor > 0 && plan.expert_tensor != plan.tensor) {
    refuse("etp",
           fmt::format("experts are split as the rest is; etp {} would be right", plan.tensor));
  }
}

void refuse_first_version(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  if (plan.tensor > 1 || plan.context > 1) {
    refuse(plan.tensor > 1 ? "tp" : "cp",
           "FSDP1 runs beside no other axis; --framework fsdp2 "
           "would be right");
  }
  if (plan.sharding == Sharding::kFull && !plan.reshard_after_forward) {
    refuse("reshard_after_forward",
           "FSDP1 calls that SHARD_GRAD_OP; --sharding gradients would be "
           "right");
  }
  const bool hybrid = plan.sharding != Sharding::kNone && plan.replicas > 1;
  if (hybrid && plan.sharded != launch.processes_per_host) {
    refuse("fsdp", fmt::format("FSDP1's HYBRID_SHARD shards over the {} GPUs of a host, not {}; "
                               "--fsdp {} would be right",
                               launch.processes_per_host, plan.sharded, launch.processes_per_host));
  }
}

void refuse_second_version(const Plan& plan) {
  const bool sharded = plan.sharding == Sharding::kFull;
  if (!sharded && plan.context > 1) {
    refuse("sharding",
           "accelerate shards parameters over the cp ranks; --sharding full would be "
           "right");
  }
  if (plan.replicas > 1 && plan.sharded == 1 && (plan.tensor > 1 || plan.context > 1)) {
    refuse("dp",
           "accelerate's ParallelismConfig takes dp_replicate with tp or cp only when "
           "dp_shard is above 1; --fsdp instead of --dp would be right");
  }
}

void refuse_recompute(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  const bool part = plan.recompute == Recompute::kFull && plan.recompute_layers >= 0 &&
                    plan.recompute_layers < launch.job.model.layers;
  if (plan.recompute == Recompute::kSelective || part) {
    refuse("recompute",
           "accelerate recomputes every layer or none; --recompute full or none would "
           "be right");
  }
  if (plan.recompute == Recompute::kFull && plan.sharding == Sharding::kNone &&
      launch.job.framework.sharder != Sharder::kFsdp1) {
    refuse("recompute", "accelerate's switch belongs to FSDP; --sharding full would be right");
  }
  if (plan.sharding == Sharding::kFull && plan.fsdp_unit > 1) {
    refuse("fsdp-unit",
           "accelerate wraps each layer or the whole model; --fsdp-unit block or model "
           "would be right");
  }
}

void refuse_types(const Job& job) {
  const Framework& framework = job.framework;
  if (framework.master_bytes != 4 || framework.mixed_precision_pure) {
    refuse("parameter_dtype",
           "accelerate keeps fp32 parameters under mixed precision; --set "
           "parameter_dtype=fp32 would be right");
  }
  if (framework.moment_bytes != 8) {
    refuse("optimizer_dtype",
           "torch's Adam keeps moments in the parameters' fp32; --set "
           "optimizer_dtype=fp32 would be right");
  }
}

void refuse_choices(const LaunchPlan& launch) {
  const Framework& framework = launch.job.framework;
  if (framework.context_all_to_all && launch.plan.context > 1) {
    refuse("context_all_to_all",
           "accelerate's context parallelism passes keys and values; --set "
           "context_all_to_all=false would be right");
  }
  if (framework.tp_comm_overlap || framework.traced_graph) {
    refuse(framework.tp_comm_overlap ? "tp_comm_overlap" : "traced_graph",
           "accelerate has no such switch; leave the setting out");
  }
  if (!framework.overlap_grad_reduce || !framework.overlap_param_gather) {
    refuse("overlap_grad_reduce",
           "PyTorch's FSDP and DDP always overlap; --set "
           "overlap_grad_reduce=true would be right");
  }
}

}  // namespace

void refuse_plans_unknown_to_accelerate(const LaunchPlan& launch) {
  const bool first = launch.job.framework.sharder == Sharder::kFsdp1;
  if (first) {
    refuse_first_version(launch);
  }
  refuse_axes(launch);
  if (!first) {
    refuse_second_version(launch.plan);
  }
  refuse_recompute(launch);
  refuse_types(launch.job);
  refuse_choices(launch);
}

}  // namespace trireme::planner
