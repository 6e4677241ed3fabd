// Sources: torchtitan v0.2.2, distributed/parallel_dims.py, config/job_config.py,
// models/*/infra/parallelize.py.
#include "planner/launch/torchtitan_refusals.h"

#include <fmt/format.h>

namespace trireme::planner {
namespace {

void refuse_degrees(const LaunchPlan& launch, const TorchtitanModel& model) {
  const Plan& plan = launch.plan;
  refuse_other_orders(plan, "torchtitan");
  if (plan.pipeline > 1 && !model.pipelines) {
    refuse("pp", fmt::format("torchtitan's {} has no pipelining; pp 1 would be right", model.name));
  }
  if (plan.context > 1 && model.flex_attention) {
    refuse("cp", fmt::format("torchtitan's {} runs FlexAttention, which has no context "
                             "parallelism; cp 1 would be right",
                             model.name));
  }
  if (plan.tensor > 1 && !plan.sequence_parallel) {
    refuse("sequence_parallel",
           "torchtitan's tensor parallelism always has it; "
           "--sequence-parallel would be right");
  }
  // ParallelDims.seq_len_divisor has the 2 of the causal balance also without context parallelism.
  const std::int64_t divisor = plan.tensor * 2 * plan.context;
  if (launch.job.sequence % divisor != 0) {
    refuse("--seq", fmt::format("{} is not divisible by tp {} x 2 x cp {}; {} would be right",
                                launch.job.sequence, plan.tensor, plan.context,
                                (launch.job.sequence / divisor + 1) * divisor));
  }
}

void refuse_experts(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  if (!launch.job.model.moe) {
    return;
  }
  const std::int64_t expert_tensor = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  const bool known = expert_tensor == plan.tensor || (plan.expert > 1 && expert_tensor == 1);
  if (!known) {
    refuse("etp", fmt::format("torchtitan has etp tp ({}), or 1 with ep > 1, not {}", plan.tensor,
                              expert_tensor));
  }
  const std::int64_t ranks = plan.sharded * plan.context * plan.tensor;
  if (plan.expert > 1 && ranks % (plan.expert * expert_tensor) != 0) {
    refuse("ep", fmt::format("torchtitan spreads experts over fsdp x cp x tp = {} ranks, which ep "
                             "{} x etp {} does not divide; a larger fsdp would be right",
                             ranks, plan.expert, expert_tensor));
  }
}

void refuse_sharding(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  const bool sharded = plan.sharding == Sharding::kFull;
  if (!sharded && (plan.context > 1 || plan.expert > 1)) {
    refuse("sharding", fmt::format("torchtitan always shards parameters with {}; --sharding full "
                                   "would be right",
                                   plan.context > 1 ? "cp" : "ep"));
  }
  if (plan.replicas > 1 && plan.sharded == 1 && plan.replicas != plan.gpus()) {
    refuse("dp",
           "torchtitan's DDP runs beside no other axis; --fsdp instead of --dp would be "
           "right");
  }
  const Job& job = launch.job;
  const bool mixed =
      job.precision != topologies::Precision::kFp32 && job.framework.master_bytes > 0;
  if (!sharded && plan.tensor * plan.pipeline > 1 && mixed) {
    refuse(
        "--precision",
        "torchtitan v0.2.2 trains in fp32 where tp or pp run without sharding; --fsdp 2 or more, "
        "--precision fp32, or bf16 alone (--set parameter_dtype=bf16 --set optimizer_dtype=bf16 "
        "--set reduce_dtype=fp32) would be right");
  }
  if (sharded && plan.fsdp_unit != 1) {
    refuse("fsdp-unit", "torchtitan wraps each block; --fsdp-unit block would be right");
  }
}

void refuse_steps(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  const bool zero_bubble =
      plan.schedule == Schedule::kZeroBubbleH1 || plan.schedule == Schedule::kZeroBubbleH2;
  if (plan.pipeline > 1 && zero_bubble) {
    refuse("schedule", fmt::format("torchtitan has no {}: its zero-bubble schedules run two chunks "
                                   "a rank; 1f1b or interleaved would be right",
                                   to_string(plan.schedule)));
  }
  if (plan.recompute == Recompute::kSelective && plan.recompute_modules != kTorchPerOp) {
    refuse("recompute-modules", fmt::format("torchtitan recomputes per op or whole layers, not {}; "
                                            "--recompute-modules op would be right",
                                            module_names(plan.recompute_modules)));
  }
  const Framework& framework = launch.job.framework;
  if (!framework.reduce_every_micro_batch && plan.pipeline == 1 && plan.micro_batches > 1 &&
      plan.data_parallel() > 1) {
    refuse("reduce_every_micro_batch",
           "torchtitan reduces gradients after every micro-batch; --set "
           "reduce_every_micro_batch=true would be right");
  }
}

void refuse_types(const Job& job) {
  const Framework& framework = job.framework;
  const bool half = framework.master_bytes == 0;
  if (job.precision == topologies::Precision::kFp16) {
    refuse("--precision", "torchtitan trains in bf16, fp32 or fp8, not fp16");
  }
  if (framework.mixed_precision_pure ||
      (job.precision != topologies::Precision::kFp32 && framework.reduce_bytes != 4)) {
    refuse("reduce_dtype",
           "torchtitan reduces gradients in fp32; --set reduce_dtype=fp32 would be right");
  }
  if (job.optimizer != Optimizer::kAdam) {
    refuse("--optimizer", "torchtitan has Adam and AdamW; --optimizer adam would be right");
  }
  if (framework.moment_bytes != (half ? 4 : 8)) {
    refuse("optimizer_dtype", fmt::format("torchtitan keeps moments in the parameters' type; --set "
                                          "optimizer_dtype={} would be right",
                                          half ? "bf16" : "fp32"));
  }
}

void refuse_choices(const Job& job) {
  const Framework& framework = job.framework;
  struct Choice {
    bool wrong;
    const char* axis;
    const char* why;
  };
  const Choice choices[] = {
      {framework.loss_chunks > 1, "loss_chunks",
       "torchtitan v0.2.2 computes the loss in one part; --set loss_chunks=1 would be right"},
      {framework.tp_comm_overlap && !framework.compile, "tp_comm_overlap",
       "torchtitan's async tensor parallelism needs torch.compile; --set compile=true would be "
       "right"},
      {framework.dropout > 0, "dropout", "torchtitan's models have none; --set dropout=0"},
      {framework.context_all_to_all, "context_all_to_all",
       "torchtitan passes keys and values on; --set context_all_to_all=false would be right"},
      {!framework.overlap_grad_reduce || !framework.overlap_param_gather, "overlap_grad_reduce",
       "FSDP2 always overlaps; --set overlap_grad_reduce=true would be right"},
      {framework.traced_graph, "traced_graph",
       "torchtitan compiles block by block; --set compile=true would be right"},
      {job.attention == models::AttentionKernel::kUnfused, "--attention",
       "torchtitan's models run fused attention; --attention flash would be right"},
  };
  for (const Choice& choice : choices) {
    if (choice.wrong) {
      refuse(choice.axis, choice.why);
    }
  }
}

}  // namespace

void refuse_plans_unknown_to_torchtitan(const LaunchPlan& launch, const TorchtitanModel& model) {
  refuse_degrees(launch, model);
  refuse_experts(launch);
  refuse_sharding(launch);
  refuse_steps(launch);
  refuse_types(launch.job);
  refuse_choices(launch.job);
}

}  // namespace trireme::planner
