// Source: Megatron-LM d98e8a64, training/arguments.py (validate_args).
#include "planner/launch/megatron_refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/launch/megatron_model_refusals.h"

namespace trireme::planner {
namespace {

void refuse_schedule(const Plan& plan, std::string_view who) {
  if (plan.pipeline > 1 && plan.schedule != Schedule::kOneForwardOneBackward &&
      plan.schedule != Schedule::kInterleaved) {
    refuse("schedule", fmt::format("{} runs 1f1b, or interleaved with vpp, not {}; --schedule 1f1b "
                                   "would be right",
                                   who, to_string(plan.schedule)));
  }
}

// Modules that the model does not have.
void refuse_modules(const LaunchPlan& launch, std::string_view who) {
  const models::Transformer& model = launch.job.model;
  if (launch.plan.recompute != Recompute::kSelective) {
    return;
  }
  const bool experts = model.moe.has_value();
  const bool grouped = experts && launch.job.cluster.gpu.compute_capability >= 80;
  struct Module {
    models::RecomputeModule bit;
    bool present;
    const char* why;
  };
  const Module modules[] = {
      {kTorchPerOp, false, "op is torchtitan's policy"},
      {kMlaUpProjection, model.latent.has_value(), "mla_up_proj needs latent attention"},
      {kMoe, experts, "moe needs experts"},
      {kMoeActivation, grouped, "moe_act needs experts in grouped products (Ampere and later)"},
      {kSharedExperts, experts && model.moe->shared_ffn > 0,
       "shared_experts needs a shared expert"},
  };
  for (const Module& module : modules) {
    if ((launch.plan.recompute_modules & module.bit) != 0 && !module.present) {
      refuse(
          "recompute-modules",
          fmt::format("{}; {} recomputes core_attn, layernorm, mlp, mla_up_proj, moe, moe_act and "
                      "shared_experts, where the model has them",
                      module.why, who));
    }
  }
}

void refuse_sharding(const LaunchPlan& launch, std::string_view who) {
  const Plan& plan = launch.plan;
  const MegatronSharding sharding = megatron_sharding(launch);
  if (plan.sharding == Sharding::kFull && plan.fsdp_unit != 1) {
    refuse("fsdp-unit", fmt::format("{} gathers one layer at a time; --fsdp-unit block would be "
                                    "right",
                                    who));
  }
  if (sharding == MegatronSharding::kMegatronFsdp && !plan.reshard_after_forward) {
    refuse("reshard_after_forward",
           "Megatron-FSDP always reshards; use sharding gradients, or --set "
           "reshard_after_forward=true");
  }
  const Framework& framework = launch.job.framework;
  if (sharding == MegatronSharding::kMegatronFsdp && plan.sharding >= Sharding::kGradients &&
      (!framework.overlap_grad_reduce ||
       (plan.sharding == Sharding::kFull && !framework.overlap_param_gather))) {
    refuse(
        "overlap_grad_reduce",
        fmt::format("Megatron-FSDP always overlaps under {}; --set overlap_grad_reduce=true (and "
                    "overlap_param_gather=true) would be right",
                    fsdp_strategy(plan.sharding)));
  }
  if (sharding != MegatronSharding::kTorchFsdp2) {
    return;
  }
  const models::Transformer& model = launch.job.model;
  if (plan.sharding != Sharding::kFull || plan.replicas > 1) {
    refuse("dp",
           "--use-torch-fsdp2 shards parameters over all data-parallel ranks; sharding full "
           "with dp 1 would be right");
  }
  if (plan.pipeline > 1 || plan.expert > 1) {
    refuse(plan.pipeline > 1 ? "pp" : "ep",
           "--use-torch-fsdp2 runs with pp 1 and ep 1; --framework megatron-fsdp takes both");
  }
  if (model.tied_embeddings || launch.job.precision == topologies::Precision::kFp16) {
    refuse("--use-torch-fsdp2",
           "needs untied embeddings and no fp16; --framework megatron-fsdp "
           "takes both");
  }
}

void refuse_types(const LaunchPlan& launch, std::string_view who) {
  const Framework& framework = launch.job.framework;
  const bool mixed = launch.job.precision != topologies::Precision::kFp32;
  const bool same = framework.gradient_bytes == framework.reduce_bytes;
  if (mixed && framework.master_bytes == 2) {
    refuse("master_bytes",
           fmt::format("16-bit remainders, which {}'s precision-aware optimizer keeps as masters, "
                       "are not written; --set master_bytes=4 would be right",
                       who));
  }
  if (mixed && (framework.master_bytes != 4 || framework.mixed_precision_pure)) {
    refuse("parameter_dtype", fmt::format("{} keeps an fp32 copy of the parameters; --set "
                                          "parameter_dtype=fp32, or leave it out",
                                          who));
  }
  const bool fp16 = launch.job.precision == topologies::Precision::kFp16;
  if (mixed && !fp16 && !same) {
    refuse("reduce_dtype", fmt::format("{} reduces gradients in the type it accumulates them in; "
                                       "--set grad_dtype=bf16 would be right",
                                       who));
  }
  if (launch.job.optimizer != Optimizer::kSgd && small_moment_bytes(launch.job) > 0 &&
      launch.plan.sharding == Sharding::kNone) {
    refuse("optimizer_dtype",
           "Megatron's precision-aware optimizer is its distributed one; "
           "--sharding optimizer would be right");
  }
}

void refuse_choices(const LaunchPlan& launch, std::string_view who) {
  const Framework& framework = launch.job.framework;
  const bool local = framework.implementation == models::Implementation::kClassicMegatron;
  if (launch.plan.virtual_pipeline > 1 && launch.plan.pipeline == 2 &&
      !framework.p2p_overlap_interleaved) {
    refuse("vpp", fmt::format("{} interleaves over two stages only with overlapped messages; --set "
                              "p2p_overlap_interleaved=true would be right",
                              who));
  }
  if (local && launch.plan.context > 1) {
    refuse("cp", fmt::format("{}'s local attention has no context parallelism; cp 1, or --set "
                             "implementation=transformer_engine, would be right",
                             who));
  }
  const bool spread = launch.plan.tensor > 1 && launch.plan.sequence_parallel;
  if (local && spread && launch.job.model.norm == models::Norm::kRmsNorm) {
    refuse("sequence_parallel",
           fmt::format("{}'s local RMSNorm has none; --no-sequence-parallel, or --set "
                       "implementation=transformer_engine, would be right",
                       who));
  }
  const std::int64_t expert_tensor =
      launch.plan.expert_tensor > 0 ? launch.plan.expert_tensor : launch.plan.tensor;
  if (launch.job.model.moe && launch.job.model.moe->expert_bias && expert_tensor > 1) {
    refuse("etp", fmt::format("experts with biases stay whole in {}; --etp 1 would be right", who));
  }
  if (framework.loss_chunks > 1) {
    refuse("loss_chunks",
           fmt::format("{} computes the loss in one part; --set loss_chunks=1", who));
  }
  if (framework.compile || framework.traced_graph) {
    refuse("compile",
           fmt::format("{} has no switch that compiles layers; --set compile=false", who));
  }
  if (framework.tp_comm_overlap && launch.plan.tensor > 1 && !launch.plan.sequence_parallel) {
    refuse("tp_comm_overlap", "needs sequence parallelism; --sequence-parallel would be right");
  }
  if (local && launch.job.attention == models::AttentionKernel::kFlash) {
    refuse("--attention",
           "Megatron's local implementation has no flash attention; --attention "
           "unfused would be right");
  }
  if (framework.overlap_param_gather && !framework.overlap_grad_reduce &&
      launch.plan.sharding != Sharding::kNone) {
    refuse("overlap_param_gather",
           "needs overlap_grad_reduce; --set overlap_param_gather=false "
           "would be right");
  }
}

}  // namespace

MegatronSharding megatron_sharding(const LaunchPlan& launch) {
  if (launch.job.framework.sharder == Sharder::kFsdp2) {
    return MegatronSharding::kTorchFsdp2;
  }
  if (launch.job.framework.sharder == Sharder::kMegatronFsdp) {
    return MegatronSharding::kMegatronFsdp;
  }
  return launch.plan.sharding == Sharding::kNone ? MegatronSharding::kReplicated
                                                 : MegatronSharding::kDistributedOptimizer;
}

bool pipeline_before_data(const Plan& plan) {
  constexpr std::array<Axis, 5> kBefore = {Axis::kTensor, Axis::kContext, Axis::kPipeline,
                                           Axis::kSharded, Axis::kReplica};
  const bool both = plan.pipeline > 1 && plan.data_parallel() > 1;
  Plan other = plan;
  other.order = kBefore;
  return both && std::all_of(kBefore.begin(), kBefore.end(), [&](Axis axis) {
           return degree_of(plan, axis) == 1 || stride_of(plan, axis) == stride_of(other, axis);
         });
}

void refuse_plans_unknown_to_megatron(const LaunchPlan& launch, std::string_view who) {
  if (!pipeline_before_data(launch.plan)) {
    refuse_other_orders(launch.plan, who);
  }
  refuse_models_unknown_to_megatron(launch.job.model);
  refuse_schedule(launch.plan, who);
  refuse_modules(launch, who);
  refuse_sharding(launch, who);
  refuse_types(launch, who);
  refuse_choices(launch, who);
}

std::string_view fsdp_strategy(Sharding sharding) {
  switch (sharding) {
    case Sharding::kNone:
      return "no_shard";
    case Sharding::kOptimizer:
      return "optim";
    case Sharding::kGradients:
      return "optim_grads";
    case Sharding::kFull:
      break;
  }
  return "optim_grads_params";
}

bool wants_one_connection(const LaunchPlan& launch) {
  const MegatronSharding sharding = megatron_sharding(launch);
  const bool fsdp =
      sharding == MegatronSharding::kMegatronFsdp || sharding == MegatronSharding::kTorchFsdp2;
  // 100 and up is Blackwell; AMD's gfx numbers are 900 and up, and its devices say 9.
  const int capability = launch.job.cluster.gpu.compute_capability;
  const bool before_blackwell = capability < 100 || capability >= 900;
  return !fsdp && before_blackwell && (launch.plan.tensor > 1 || launch.plan.context > 1);
}

MegatronOverlap megatron_overlap(const LaunchPlan& launch) {
  const Framework& framework = launch.job.framework;
  const bool reduces = launch.plan.data_parallel() * launch.plan.context > 1;
  const bool gathers = megatron_sharding(launch) == MegatronSharding::kDistributedOptimizer ||
                       megatron_sharding(launch) == MegatronSharding::kMegatronFsdp;
  MegatronOverlap overlap;
  overlap.grad_reduce = reduces && overlaps_gradient_reduction(framework);
  overlap.param_gather = overlap.grad_reduce && gathers && overlaps_parameter_gather(framework);
  return overlap;
}

int small_moment_bytes(const Job& job) {
  if (job.optimizer == Optimizer::kAdam8bit) {
    return 1;
  }
  return job.framework.moment_bytes < 8
             ? static_cast<int>(std::lround(job.framework.moment_bytes / 2))
             : 0;
}

}  // namespace trireme::planner
