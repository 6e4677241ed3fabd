// What Megatron-LM and Megatron-Bridge refuse of a plan beyond check_plan's rules, and the choices
// that both formats write in their own words. Sources: Megatron-LM d98e8a64, training/arguments.py
// (validate_args), core/transformer/transformer_config.py, core/models/gpt/gpt_layer_specs.py.
#include <algorithm>
#include <cmath>

#include "planner/launch/launch_facts.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/refusals.h"

namespace trireme::planner {
namespace {

using models::Transformer;

const Transformer& model_of(const Launched& l) {
  return l.job.model;
}

// A module that selective recompute names and the model does not have.
bool repeats_without(const Launched& l, models::RecomputeModule module, bool present) {
  return l.plan.recompute == Recompute::kSelective && (l.plan.recompute_modules & module) != 0 &&
         !present;
}

// --disable-bias-linear is one switch for attention's output, the MLP and the experts;
// --add-qkv-bias adds back that of q, k and v.
bool mixes_biases(const Job& job) {
  const Transformer& model = job.model;
  const bool biases = has_linear_biases(model);
  const bool dense = models::moe_layer_count(model) < model.layers;
  const bool experts = models::moe_layer_count(model) > 0;
  return (dense && model.mlp_bias != biases) || (experts && model.moe->expert_bias != biases) ||
         (biases && !model.qkv_bias);
}

// Parts that Megatron-Core's layer has no place for, under the names that a model file has for
// them.
constexpr JobRefusal kMegatronJobs[] = {
    {"position of {model}",
     [](const Job& job) { return job.model.position == models::Position::kAlibi; },
     "is alibi; Megatron-Core has learned, rotary or no positions; a model without it would be "
     "right"},
    {"parallel_block of {model}", [](const Job& job) { return job.model.parallel_block; },
     "is attention and MLP beside each other; Megatron-Core's layer runs one after the other; a "
     "model "
     "without it would be right"},
    {"norms_per_layer of {model}", [](const Job& job) { return job.model.norms_per_layer != 2; },
     "is not 2, which Megatron-Core's layer has; a model without it would be right"},
    {"qk_norm_all_heads of {model}",
     [](const Job& job) { return job.model.qk_norm && job.model.qk_norm_all_heads; },
     "is a norm over all heads; Megatron-Core normalises each head; a model without it would be "
     "right"},
    {"embedding_dim of {model}", [](const Job& job) { return job.model.embedding_dim > 0; },
     "is narrower than hidden; Megatron-Core's embedding is as wide as its layers; a model without "
     "it "
     "would be right"},
    {"embedding_norm of {model}", [](const Job& job) { return job.model.embedding_norm; },
     "is a norm that Megatron-Core's embedding lacks; a model without it would be right"},
    {"final_norm of {model}", [](const Job& job) { return !job.model.final_norm; },
     "is missing; Megatron-Core always ends with one; a model without it would be right"},
    {"norm_bias of {model}",
     [](const Job& job) {
       return job.model.norm == models::Norm::kLayerNorm && !job.model.norm_bias;
     },
     "is missing; Megatron-Core's LayerNorm has one; a model without it would be right"},
    {"head_bias of {model}", [](const Job& job) { return job.model.head_bias; },
     "is a bias that Megatron-Core's output layer lacks; a model without it would be right"},
    {"attention_output_bias and mlp_bias of {model}", mixes_biases,
     "differ; Megatron-Core has one switch for the biases of all matrices, and one more for those "
     "of q, "
     "k and v"},
    {"parameter_dtype",
     [](const Job& job) {
       return mixes_types(job) &&
              (job.framework.master_bytes < 2 || job.framework.mixed_precision_pure);
     },
     "{who} keeps an fp32 copy of the parameters; --set parameter_dtype=fp32, or leave it out"},
    {"reduce_dtype",
     [](const Job& job) {
       return mixes_types(job) && job.precision != topologies::Precision::kFp16 &&
              job.framework.gradient_bytes != job.framework.reduce_bytes;
     },
     "{who} reduces gradients in the type it accumulates them in; --set grad_dtype=bf16 would be "
     "right"},
    {"cross_entropy_fusion",
     [](const Job& job) {
       return job.framework.deterministic && job.framework.cross_entropy_fusion;
     },
     "is not deterministic, which {who} refuses; --set cross_entropy_fusion=false would be right"},
    {"loss_chunks", [](const Job& job) { return job.framework.loss_chunks > 1; },
     "{who} computes the loss in one part; --set loss_chunks=1"},
    {"compile", [](const Job& job) { return job.framework.compile || job.framework.traced_graph; },
     "{who} has no switch that compiles layers; --set compile=false"},
    {"--attention",
     [](const Job& job) {
       return has_local_layers(job) && job.attention == models::AttentionKernel::kFlash;
     },
     "Megatron's local implementation has no flash attention; --attention unfused would be right"},
};

// What Megatron-Bridge's own layers and position table leave no choice of.
constexpr JobRefusal kBridgeJobs[] = {
    {"--seq",
     [](const Job& job) {
       return job.model.position == models::Position::kLearned &&
              megatron_positions(job) != job.sequence;
     },
     "Megatron-Bridge's position table has as many rows as the sequence; --seq {positions} would "
     "be right"},
    {"implementation", has_local_layers,
     "Megatron-Bridge runs Transformer Engine's layers; --set implementation=transformer_engine "
     "would be right"},
};

constexpr Refusal kMegatronLayouts[] = {
    {"schedule",
     [](const Launched& l) {
       return l.plan.pipeline > 1 && l.plan.schedule != Schedule::kOneForwardOneBackward &&
              l.plan.schedule != Schedule::kInterleaved;
     },
     "{who} runs 1f1b, or interleaved with vpp, not {schedule}; --schedule 1f1b would be right"},
    {"recompute-modules", [](const Launched& l) { return repeats_without(l, kTorchPerOp, false); },
     "op is torchtitan's policy; {who} recomputes core_attn, layernorm, mlp, mla_up_proj, moe, "
     "moe_act "
     "and shared_experts, where the model has them"},
    {"recompute-modules",
     [](const Launched& l) {
       return repeats_without(l, kMlaUpProjection, model_of(l).latent.has_value());
     },
     "mla_up_proj needs latent attention; --recompute-modules without it would be right"},
    {"recompute-modules",
     [](const Launched& l) { return repeats_without(l, kMoe, model_of(l).moe.has_value()); },
     "moe needs experts; --recompute-modules without it would be right"},
    {"recompute-modules",
     [](const Launched& l) {
       return repeats_without(l, kMoeActivation,
                              model_of(l).moe && l.job.cluster.gpu.compute_capability >= 80);
     },
     "moe_act needs experts in grouped products (Ampere and later); --recompute-modules without it "
     "would "
     "be right"},
    {"recompute-modules",
     [](const Launched& l) {
       return repeats_without(l, kSharedExperts,
                              model_of(l).moe && model_of(l).moe->shared_ffn > 0);
     },
     "shared_experts needs a shared expert; --recompute-modules without it would be right"},
    {"fsdp-unit",
     [](const Launched& l) { return l.plan.sharding == Sharding::kFull && l.plan.fsdp_unit != 1; },
     "{who} gathers one layer at a time; --fsdp-unit block would be right"},
    {"reshard_after_forward",
     [](const Launched& l) { return is_fsdp(l) && !l.plan.reshard_after_forward; },
     "Megatron-FSDP always reshards; use sharding gradients, or --set reshard_after_forward=true"},
    {"overlap_grad_reduce",
     [](const Launched& l) {
       const Framework& framework = l.job.framework;
       return is_fsdp(l) && l.plan.sharding >= Sharding::kGradients &&
              (!framework.overlap_grad_reduce ||
               (l.plan.sharding == Sharding::kFull && !framework.overlap_param_gather));
     },
     "Megatron-FSDP always overlaps under --sharding {sharding}; --set overlap_grad_reduce=true "
     "(and "
     "overlap_param_gather=true) would be right"},
    {"dp",
     [](const Launched& l) {
       return is_torch_fsdp(l) && (l.plan.sharding != Sharding::kFull || l.plan.replicas > 1);
     },
     "--use-torch-fsdp2 shards parameters over all data-parallel ranks; sharding full with dp 1 "
     "would be "
     "right"},
    {"pp", [](const Launched& l) { return is_torch_fsdp(l) && l.plan.pipeline > 1; },
     "--use-torch-fsdp2 runs with pp 1 and ep 1; --framework megatron-fsdp takes both"},
    {"ep", [](const Launched& l) { return is_torch_fsdp(l) && l.plan.expert > 1; },
     "--use-torch-fsdp2 runs with pp 1 and ep 1; --framework megatron-fsdp takes both"},
    {"--use-torch-fsdp2",
     [](const Launched& l) {
       return is_torch_fsdp(l) && (model_of(l).tied_embeddings || is_fp16(l));
     },
     "needs untied embeddings and no fp16; --framework megatron-fsdp takes both"},
    {"master_bytes",
     [](const Launched& l) {
       return is_mixed(l) && l.job.framework.master_bytes == 2 &&
              (is_fp16(l) || l.job.optimizer == Optimizer::kSgd ||
               megatron_sharding(l) != MegatronSharding::kDistributedOptimizer);
     },
     "{who}'s precision-aware optimizer keeps 16-bit remainders as masters where bf16 states are "
     "sharded as optimizer alone; --set master_bytes=4 would be right"},
    {"optimizer_dtype",
     [](const Launched& l) {
       return l.job.optimizer != Optimizer::kSgd && small_moment_bytes(l.job) > 0 &&
              l.plan.sharding == Sharding::kNone;
     },
     "Megatron's precision-aware optimizer is its distributed one; --sharding optimizer would be "
     "right"},
    {"vpp",
     [](const Launched& l) {
       return l.plan.virtual_pipeline > 1 && l.plan.pipeline == 2 &&
              !l.job.framework.p2p_overlap_interleaved;
     },
     "{who} interleaves over two stages only with overlapped messages; --set "
     "p2p_overlap_interleaved=true would be right"},
    {"cp", [](const Launched& l) { return is_local(l) && l.plan.context > 1; },
     "{who}'s local attention has no context parallelism; cp 1, or --set "
     "implementation=transformer_engine, would be right"},
    {"sequence_parallel",
     [](const Launched& l) {
       return is_local(l) && l.plan.tensor > 1 && l.plan.sequence_parallel &&
              model_of(l).norm == models::Norm::kRmsNorm;
     },
     "{who}'s local RMSNorm has none; --no-sequence-parallel, or --set "
     "implementation=transformer_engine, would be right"},
    {"etp",
     [](const Launched& l) {
       return model_of(l).moe && model_of(l).moe->expert_bias && expert_tensor_of(l.plan) > 1;
     },
     "experts with biases stay whole in {who}; --etp 1 would be right"},
    {"tp_comm_overlap",
     [](const Launched& l) {
       return l.job.framework.tp_comm_overlap && l.plan.tensor > 1 && !l.plan.sequence_parallel;
     },
     "needs sequence parallelism; --sequence-parallel would be right"},
    {"tp_comm_overlap",
     [](const Launched& l) {
       return l.job.framework.tp_comm_overlap && l.plan.tensor > 1 && l.job.framework.deterministic;
     },
     "is not deterministic, which {who} refuses; --set tp_comm_overlap=false would be right"},
    {"overlap_param_gather",
     [](const Launched& l) {
       return l.job.framework.overlap_param_gather && !l.job.framework.overlap_grad_reduce &&
              l.plan.sharding != Sharding::kNone;
     },
     "needs overlap_grad_reduce; --set overlap_param_gather=false would be right"},
};

}  // namespace

std::span<const JobRefusal> megatron_job_refusals() {
  return kMegatronJobs;
}
std::span<const JobRefusal> megatron_bridge_job_refusals() {
  return kBridgeJobs;
}
std::span<const Refusal> megatron_layout_refusals() {
  return kMegatronLayouts;
}

MegatronSharding megatron_sharding(const Launched& launch) {
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
  // 100 and up is Blackwell; AMD's gfx numbers are 900 and up, and its devices say 9.
  const int capability = launch.job.cluster.gpu.compute_capability;
  const bool before_blackwell = capability < 100 || capability >= 900;
  return !is_fsdp(launch) && !is_torch_fsdp(launch) && before_blackwell &&
         (launch.plan.tensor > 1 || launch.plan.context > 1);
}

MegatronOverlap megatron_overlap(const LaunchPlan& launch) {
  const Framework& framework = launch.job.framework;
  const bool reduces = launch.plan.data_parallel() * launch.plan.context > 1;
  const bool gathers =
      is_fsdp(launch) || megatron_sharding(launch) == MegatronSharding::kDistributedOptimizer;
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

bool has_linear_biases(const Transformer& model) {
  return model.attention_output_bias;
}

std::int64_t megatron_positions(const Job& job) {
  if (job.model.position == models::Position::kLearned) {
    return job.model.position_rows > 0 ? job.model.position_rows : job.model.max_sequence;
  }
  return std::max(job.model.max_sequence, job.sequence);
}

}  // namespace trireme::planner
