// Sources: Megatron-LM d98e8a64, training/arguments.py; Megatron-Bridge 067f987d,
// training/config.py.
#include <fmt/format.h>

#include <cmath>

#include "planner/launch/launch_facts.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

using L = LaunchPlan;
using enum MegatronUse;

bool is_fused(const L& l) {
  return !is_local(l);
}
bool masks_alone(const L& l) {
  return is_local(l) && !l.job.framework.masked_softmax_fusion;
}
bool is_unfused(const L& l) {
  return l.job.attention == models::AttentionKernel::kUnfused;
}
bool fuses_loss(const L& l) {
  return l.job.framework.cross_entropy_fusion;
}
// Transformer Engine's, which Bridge's recipes take and Megatron-LM's trainer refuses.
bool is_engine_loss(const L& l) {
  return l.job.framework.fused_logit_bytes <= 2;
}
bool is_fp32(const L& l) {
  return l.job.precision == topologies::Precision::kFp32;
}
bool is_bf16(const L& l) {
  return is_mixed(l) && !is_fp16(l);
}
bool sums_in_half(const L& l) {
  return l.job.framework.gradient_bytes < 4;
}
bool shards_optimizer(const L& l) {
  return is_fsdp(l) || megatron_sharding(l) == MegatronSharding::kDistributedOptimizer;
}
bool reduces_early(const L& l) {
  return megatron_overlap(l).grad_reduce;
}
bool gathers_early(const L& l) {
  return megatron_overlap(l).param_gather;
}
bool overlaps_tensor(const L& l) {
  return l.job.framework.tp_comm_overlap && l.plan.tensor > 1;
}
// Megatron-Bridge's one object for both, whose first field has no default.
FieldValue communication_overlaps(const L& l) {
  const bool experts = overlaps_experts(l.job, l.plan);
  if (!overlaps_tensor(l) && !experts) {
    return {};
  }
  return Expression{fmt::format("CommOverlapConfig(tp_comm_overlap={}{})",
                                overlaps_tensor(l) ? "True" : "False",
                                experts ? ", overlap_moe_expert_parallel_comm=True" : "")};
}
bool interleaves(const L& l) {
  return is_pipeline(l) && l.plan.virtual_pipeline > 1;
}
bool interleaves_one_by_one(const L& l) {
  return interleaves(l) && !l.job.framework.p2p_overlap_interleaved;
}
bool recomputes_all(const L& l) {
  return l.plan.recompute == Recompute::kFull && l.plan.recompute_layers != 0;
}
bool recomputes_modules(const L& l) {
  return l.plan.recompute == Recompute::kSelective && l.plan.recompute_layers != 0;
}
bool recomputes(const L& l) {
  return recomputes_all(l) || recomputes_modules(l);
}
bool is_every_layer(const L& l) {
  return l.plan.recompute_layers < 0;
}
bool has_small_moments(const L& l) {
  return l.job.optimizer != Optimizer::kSgd && small_moment_bytes(l.job) > 0;
}
bool offloads_activations(const L& l) {
  return l.job.offload.activations != OffloadTo::kNone;
}
// Its states are those of Transformer Engine's optimizer: small moments, or 16-bit remainders of
// the parameters.
bool is_precision_aware(const L& l) {
  return has_small_moments(l) || offloads_optimizer(l) || l.job.framework.master_bytes == 2;
}
bool has_byte_moments(const L& l) {
  return small_moment_bytes(l.job) == 1;
}

FieldValue pipeline_type(const L& l) {
  return when(is_pipeline(l), Expression{is_fp32(l)   ? "torch.float32"
                                         : is_fp16(l) ? "torch.float16"
                                                      : "torch.bfloat16"});
}

// How the layers stand on several stages.
FieldValue stage_layout(const L& l) {
  const std::string layout = is_pipeline(l) ? megatron_stages(l).layout : "";
  return when(!layout.empty(), layout);
}
bool counts_stages(const L& l) {
  return interleaves(l) && megatron_stages(l).layout.empty();
}
FieldWriter counted_end(bool StageSplit::*end) {
  return
      [end](const L& l) { return when(is_pipeline(l), is_pipeline(l) && megatron_stages(l).*end); };
}
FieldWriter end_stage(std::int64_t StageSplit::*layers) {
  return [layers](const L& l) {
    const StageSplit split = is_pipeline(l) ? megatron_stages(l) : StageSplit();
    return when(split.first_stage > 0, split.*layers);
  };
}

FieldValue recompute_modules(const L& l) {
  TextList modules;
  std::string names = module_names(l.plan.recompute_modules);
  for (std::size_t cut = names.find('+'); cut != std::string::npos; cut = names.find('+')) {
    modules.push_back(names.substr(0, cut));
    names.erase(0, cut + 1);
  }
  modules.push_back(names);
  return when(recomputes_modules(l), modules);
}

FieldValue recipe(const L& l) {
  return Expression{is_fp32(l)   ? "None"
                    : is_fp16(l) ? "get_mixed_precision_config(\"fp16_mixed\")"
                    : is_fp8(l)
                        ? "get_mixed_precision_config(\"bf16_with_fp8_current_scaling_mixed\")"
                        : "get_mixed_precision_config(\"bf16_mixed\")"};
}

FieldWriter moment_type(FieldValue eighth, FieldValue half) {
  return given(has_small_moments, either(has_byte_moments, std::move(eighth), std::move(half)));
}

FieldWriter strategy() {
  return [](const L& l) { return std::string(fsdp_strategy(l.plan.sharding)); };
}

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<MegatronTopic> layout_fields() {
  return {
      {
          {kValue, "micro_batch_size", "train.micro_batch_size", &Plan::micro_batch},
          {kValue, "global_batch_size", "train.global_batch_size", &Job::global_batch},
          {kHarmless, "train_iters", "train.train_iters", &L::steps},
          {kHarmless, "lr_warmup_iters", "scheduler.lr_warmup_iters", warmup_steps},
      },
      {
          {kValue, "tensor_model_parallel_size", "model.tensor_model_parallel_size", &Plan::tensor},
          {kSwitch, "sequence_parallel", "model.sequence_parallel", &Plan::sequence_parallel},
          {kSwitch, "tp_comm_overlap", "", overlaps_tensor},
          {kValue, "", "comm_overlap", communication_overlaps},
          {kValue, "context_parallel_size", "model.context_parallel_size", &Plan::context},
          {kValue, "cp_comm_type", "model.cp_comm_type",
           given([](const L& l) { return l.plan.context > 1; },
                 either([](const L& l) { return l.job.framework.context_all_to_all; }, "a2a",
                        either([](const L& l) { return l.job.framework.context_gather; },
                               "all_gather", "p2p")))},
          {kValue, "expert_model_parallel_size", "model.expert_model_parallel_size",
           given(has_experts, &Plan::expert)},
          {kValue, "expert_tensor_parallel_size", "model.expert_tensor_parallel_size",
           given(has_experts, [](const L& l) { return expert_tensor_of(l.plan); })},
          {kSwitch, "overlap_moe_expert_parallel_comm", "",
           [](const L& l) { return overlaps_experts(l.job, l.plan); }},
      },
      {
          {kValue, "pipeline_model_parallel_size", "model.pipeline_model_parallel_size",
           &Plan::pipeline},
          {kValue, "", "model.pipeline_dtype", pipeline_type},
          {kValue, "pipeline_model_parallel_layout", "model.pipeline_model_parallel_layout",
           stage_layout},
          {kValue, "num_virtual_stages_per_pipeline_rank", "",
           given(counts_stages, &Plan::virtual_pipeline)},
          {kValue, "", "model.virtual_pipeline_model_parallel_size",
           given(interleaves, &Plan::virtual_pipeline)},
          {kSwitch, "account_for_embedding_in_pipeline_split",
           "model.account_for_embedding_in_pipeline_split",
           counted_end(&StageSplit::account_for_embedding)},
          {kSwitch, "account_for_loss_in_pipeline_split",
           "model.account_for_loss_in_pipeline_split", counted_end(&StageSplit::account_for_loss)},
          {kValue, "decoder_first_pipeline_num_layers", "model.num_layers_in_first_pipeline_stage",
           end_stage(&StageSplit::first_stage)},
          {kValue, "decoder_last_pipeline_num_layers", "model.num_layers_in_last_pipeline_stage",
           end_stage(&StageSplit::last_stage)},
          {kSwitch, "no_overlap_p2p_communication", "", interleaves_one_by_one},
          {kSwitch, "", "model.overlap_p2p_comm",
           given(interleaves, &Framework::p2p_overlap_interleaved)},
          {kSwitch, "", "model.batch_p2p_comm", given(interleaves, interleaves_one_by_one)},
          {kSwitch, "use_tp_pp_dp_mapping", "dist.use_tp_pp_dp_mapping",
           given([](const L& l) { return pipeline_before_data(l.plan); }, true)},
      },
      {
          {kSwitch, "use_megatron_fsdp", "ddp.use_megatron_fsdp", given(is_fsdp, true)},
          {kSwitch, "", "dist.use_megatron_fsdp", given(is_fsdp, true)},
          {kSwitch, "", "ddp.average_in_collective", given(is_fsdp, false)},
          {kSwitch, "use_torch_fsdp2", "", is_torch_fsdp},
          {kSwitch, "torch_fsdp2_no_reshard_after_forward", "",
           [](const L& l) { return is_torch_fsdp(l) && !l.plan.reshard_after_forward; }},
          {kValue, "data_parallel_sharding_strategy", "ddp.data_parallel_sharding_strategy",
           given(is_fsdp, strategy()), either(is_fsdp, strategy(), "no_shard")},
          {kValue, "ckpt_format", "checkpoint.ckpt_format",
           either(is_fsdp, "fsdp_dtensor", given(is_torch_fsdp, "torch_dist"))},
          {kSwitch, "use_distributed_optimizer", "ddp.use_distributed_optimizer", shards_optimizer},
          {kSwitch, "", "optimizer.use_distributed_optimizer", shards_optimizer},
          {kValue, "num_distributed_optimizer_instances", "ddp.num_distributed_optimizer_instances",
           given(
               [](const L& l) { return l.plan.sharding != Sharding::kNone && l.plan.replicas > 1; },
               &Plan::replicas)},
          {kValue, "ddp_bucket_size", "ddp.bucket_size",
           given([](const L& l) { return l.job.framework.bucket_elements > 0; },
                 &Framework::bucket_elements)},
          {kSwitch, "overlap_grad_reduce", "ddp.overlap_grad_reduce", reduces_early},
          {kSwitch, "overlap_param_gather", "ddp.overlap_param_gather", gathers_early},
          {kSwitch, "", "optimizer.overlap_param_gather", gathers_early},
      },
  };
}

std::vector<MegatronTopic> step_fields() {
  return {
      {
          {kValue, "", "mixed_precision", recipe},
          {kSwitch, "fp16", "", is_fp16},
          {kSwitch, "bf16", "", is_bf16},
          {kValue, "fp8_format", "", given(is_fp8, "hybrid")},
          {kValue, "fp8_recipe", "", given(is_fp8, "tensorwise")},
          {kSwitch, "fp8_param_gather", "mixed_precision.fp8_param_gather",
           given(is_fp8, &Framework::fp8_parameters)},
          {kOpposite, "grad_reduce_in_bf16", "mixed_precision.grad_reduce_in_fp32",
           given(is_bf16, sums_in_half)},
          {kSwitch, "", "ddp.grad_reduce_in_fp32",
           given(is_mixed, [](const L& l) { return is_bf16(l) && !sums_in_half(l); })},
      },
      // Local layers start without Transformer Engine, whose fused rotation they would ask for, and
      // without Apex, whose norm alone has the persistent kernel.
      {
          {kValue, "transformer_impl", "", either(is_local, "local", "transformer_engine")},
          {kSwitch, "no_persist_layer_norm", "", is_local},
          {kSwitch, "no_rope_fusion", "", is_local},
          {kSwitch, "no_masked_softmax_fusion", "", masks_alone},
          {kValue, "attention_backend", "model.attention_backend",
           given(is_fused, either(is_unfused, "unfused", "auto")),
           given(is_unfused, Expression{"AttnBackend.unfused"})},
          {kValue, "attention_dropout", "model.attention_dropout", &Framework::dropout},
          {kValue, "hidden_dropout", "model.hidden_dropout", &Framework::dropout},
          {kSwitch, "cross_entropy_loss_fusion", "model.cross_entropy_loss_fusion",
           &Framework::cross_entropy_fusion},
          {kSwitch, "deterministic_mode", "", &Framework::deterministic},
          {kValue, "cross_entropy_fusion_impl", "", given(fuses_loss, "native")},
          {kValue, "", "model.cross_entropy_fusion_impl",
           given(fuses_loss, either(is_engine_loss, "te", "native"))},
          {kSwitch, "no_gradient_accumulation_fusion", "",
           [](const L& l) {
             return !l.job.framework.gradient_accumulation_fusion || is_torch_fsdp(l);
           }},
          {kSwitch, "", "model.gradient_accumulation_fusion",
           &Framework::gradient_accumulation_fusion},
      },
      {
          {kValue, "optimizer", "optimizer.optimizer",
           either([](const L& l) { return l.job.optimizer == Optimizer::kSgd; }, "sgd", "adam")},
          {kSwitch, "use_precision_aware_optimizer", "optimizer.use_precision_aware_optimizer",
           given(is_precision_aware, true)},
          {kSwitch, "optimizer_cpu_offload", "optimizer.optimizer_cpu_offload",
           given(offloads_optimizer, true)},
          {kValue, "optimizer_offload_fraction", "optimizer.optimizer_offload_fraction",
           given(offloads_optimizer, [](const L& l) { return l.job.offload.optimizer_share; })},
          {kSwitch, "cpu_offloading", "model.cpu_offloading", given(offloads_activations, true)},
          {kValue, "cpu_offloading_num_layers", "model.cpu_offloading_num_layers",
           given(offloads_activations,
                 [](const L& l) {
                   return static_cast<std::int64_t>(std::llround(
                       l.job.offload.activation_share * static_cast<double>(l.job.model.layers)));
                 })},
          {kValue, "exp_avg_dtype", "optimizer.exp_avg_dtype", moment_type("fp8", "bf16"),
           moment_type(Expression{"torch.uint8"}, Expression{"torch.bfloat16"})},
          {kValue, "exp_avg_sq_dtype", "optimizer.exp_avg_sq_dtype", moment_type("fp8", "bf16"),
           moment_type(Expression{"torch.uint8"}, Expression{"torch.bfloat16"})},
      },
      {
          {kValue, "recompute_granularity", "model.recompute_granularity",
           given(recomputes, either(recomputes_all, "full", "selective"))},
          {kValue, "recompute_method", "model.recompute_method",
           given(recomputes_all, either(is_every_layer, "uniform", "block"))},
          {kValue, "recompute_num_layers", "model.recompute_num_layers",
           given(recomputes_all, either(is_every_layer, 1, &Plan::recompute_layers))},
          {kValue, "recompute_modules", "model.recompute_modules", recompute_modules},
      },
  };
}

}  // namespace

const std::vector<MegatronTopic>& megatron_fields() {
  static const std::vector<MegatronTopic> kTopics = [] {
    std::vector<MegatronTopic> all;
    for (const std::vector<MegatronTopic>& topics :
         {megatron_model_fields(), layout_fields(), step_fields()}) {
      all.insert(all.end(), topics.begin(), topics.end());
    }
    return all;
  }();
  return kTopics;
}

}  // namespace trireme::planner
