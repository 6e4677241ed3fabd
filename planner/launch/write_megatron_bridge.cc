// Source: Megatron-Bridge 067f987d, recipes/common.py, training/config.py, training/pretrain.py.
#include "planner/launch/write_megatron_bridge.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/bridge_model.h"
#include "planner/launch/megatron_refusals.h"
#include "planner/launch/megatron_stages.h"
#include "planner/launch/quoting.h"

namespace trireme::planner {
namespace {

constexpr const char* kImports = R"(import os

import torch
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.recipes.common import _pretrain_common
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.pretrain import pretrain
from megatron.core.activations import squared_relu
from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.transformer.enums import AttnBackend
)";

struct Lines {
  std::vector<std::string> lines;
  template <typename Value>
  void set(const char* name, const Value& value) {
    lines.push_back(fmt::format("cfg.{} = {}", name, value));
  }
  void set(const char* name, bool value) { set(name, std::string(python(value))); }
};

void set_stages(const LaunchPlan& launch, Lines& out) {
  const Plan& plan = launch.plan;
  out.set("model.pipeline_model_parallel_size", plan.pipeline);
  if (plan.pipeline == 1) {
    return;
  }
  out.set("model.pipeline_dtype",
          launch.job.precision == topologies::Precision::kFp32   ? "torch.float32"
          : launch.job.precision == topologies::Precision::kFp16 ? "torch.float16"
                                                                 : "torch.bfloat16");
  const StageSplit split = megatron_stages(launch);
  if (plan.virtual_pipeline > 1) {
    out.set("model.virtual_pipeline_model_parallel_size", plan.virtual_pipeline);
    out.set("model.overlap_p2p_comm", launch.job.framework.p2p_overlap_interleaved);
    out.set("model.batch_p2p_comm", !launch.job.framework.p2p_overlap_interleaved);
  }
  if (!split.layout.empty()) {
    out.set("model.pipeline_model_parallel_layout", fmt::format("\"{}\"", split.layout));
  }
  if (split.account_for_embedding || split.account_for_loss) {
    out.set("model.account_for_embedding_in_pipeline_split", split.account_for_embedding);
    out.set("model.account_for_loss_in_pipeline_split", split.account_for_loss);
  }
  if (split.first_stage > 0) {
    out.set("model.num_layers_in_first_pipeline_stage", split.first_stage);
    out.set("model.num_layers_in_last_pipeline_stage", split.last_stage);
  }
}

void set_degrees(const LaunchPlan& launch, Lines& out) {
  const Plan& plan = launch.plan;
  out.set("model.tensor_model_parallel_size", plan.tensor);
  out.set("model.sequence_parallel", plan.sequence_parallel);
  set_stages(launch, out);
  out.set("model.context_parallel_size", plan.context);
  if (plan.context > 1) {
    out.set("model.cp_comm_type", launch.job.framework.context_all_to_all ? "\"a2a\"" : "\"p2p\"");
  }
  if (launch.job.model.moe) {
    out.set("model.expert_model_parallel_size", plan.expert);
    out.set("model.expert_tensor_parallel_size",
            plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor);
  }
  if (pipeline_before_data(plan)) {
    out.set("dist.use_tp_pp_dp_mapping", true);
  }
}

void set_recompute(const Plan& plan, Lines& out) {
  if (plan.recompute == Recompute::kNone || plan.recompute_layers == 0) {
    return;
  }
  if (plan.recompute == Recompute::kFull) {
    const bool all = plan.recompute_layers < 0;
    out.set("model.recompute_granularity", "\"full\"");
    out.set("model.recompute_method", all ? "\"uniform\"" : "\"block\"");
    out.set("model.recompute_num_layers", all ? 1 : plan.recompute_layers);
    return;
  }
  std::string modules = module_names(plan.recompute_modules);
  for (auto at = modules.find('+'); at != std::string::npos; at = modules.find('+', at)) {
    modules.replace(at, 1, "\", \"");
  }
  out.set("model.recompute_granularity", "\"selective\"");
  out.set("model.recompute_modules", "[\"" + modules + "\"]");
}

void set_kernels(const LaunchPlan& launch, Lines& out) {
  const Framework& framework = launch.job.framework;
  if (framework.implementation == models::Implementation::kClassicMegatron) {
    refuse("implementation",
           "Megatron-Bridge runs Transformer Engine's layers; --set "
           "implementation=transformer_engine would be right");
  }
  if (launch.job.attention == models::AttentionKernel::kUnfused) {
    out.set("model.attention_backend", "AttnBackend.unfused");
  }
  out.set("model.cross_entropy_loss_fusion", framework.cross_entropy_fusion);
  if (framework.cross_entropy_fusion) {
    out.set("model.cross_entropy_fusion_impl", "\"native\"");
  }
  out.set("model.gradient_accumulation_fusion", framework.gradient_accumulation_fusion);
  if (framework.tp_comm_overlap && launch.plan.tensor > 1) {
    out.set("comm_overlap", "CommOverlapConfig(tp_comm_overlap=True)");
  }
}

void set_sharding(const LaunchPlan& launch, Lines& out) {
  const Plan& plan = launch.plan;
  const MegatronSharding sharding = megatron_sharding(launch);
  const bool fsdp = sharding == MegatronSharding::kMegatronFsdp;
  const bool distributed = fsdp || sharding == MegatronSharding::kDistributedOptimizer;
  const MegatronOverlap overlap = megatron_overlap(launch);
  out.set("ddp.use_distributed_optimizer", distributed);
  out.set("optimizer.use_distributed_optimizer", distributed);
  out.set("ddp.overlap_grad_reduce", overlap.grad_reduce);
  out.set("ddp.overlap_param_gather", overlap.param_gather);
  out.set("optimizer.overlap_param_gather", overlap.param_gather);
  out.set("ddp.data_parallel_sharding_strategy",
          fmt::format("\"{}\"", fsdp ? fsdp_strategy(plan.sharding) : "no_shard"));
  if (plan.sharding != Sharding::kNone && plan.replicas > 1) {
    out.set("ddp.num_distributed_optimizer_instances", plan.replicas);
  }
  if (launch.job.framework.bucket_elements > 0) {
    out.set("ddp.bucket_size", launch.job.framework.bucket_elements);
  }
  if (fsdp) {
    out.set("dist.use_megatron_fsdp", true);
    out.set("ddp.use_megatron_fsdp", true);
    out.set("ddp.average_in_collective", false);
    out.set("checkpoint.ckpt_format", "\"fsdp_dtensor\"");
  }
}

void set_types(const Job& job, Lines& out) {
  const char* recipe = job.precision == topologies::Precision::kFp16 ? "fp16_mixed"
                       : job.precision == topologies::Precision::kFp8
                           ? "bf16_with_fp8_current_scaling_mixed"
                           : "bf16_mixed";
  if (job.precision == topologies::Precision::kFp32) {
    out.set("mixed_precision", "None");
  } else {
    const bool half = job.framework.gradient_bytes < 4;
    out.set("mixed_precision", fmt::format("get_mixed_precision_config(\"{}\")", recipe));
    if (job.precision != topologies::Precision::kFp16) {
      out.set("mixed_precision.grad_reduce_in_fp32", !half);
    }
    if (job.precision == topologies::Precision::kFp8) {
      out.set("mixed_precision.fp8_param_gather", job.framework.fp8_parameters);
    }
    out.set("ddp.grad_reduce_in_fp32", !half && job.precision != topologies::Precision::kFp16);
  }
  out.set("optimizer.optimizer", job.optimizer == Optimizer::kSgd ? "\"sgd\"" : "\"adam\"");
  const int bytes = small_moment_bytes(job);
  if (job.optimizer != Optimizer::kSgd && bytes > 0) {
    const char* type = bytes == 1 ? "torch.uint8" : "torch.bfloat16";
    out.set("optimizer.use_precision_aware_optimizer", true);
    out.set("optimizer.exp_avg_dtype", type);
    out.set("optimizer.exp_avg_sq_dtype", type);
  }
}

// Of the data, the checkpoints and how often they are looked at.
void set_data(const LaunchPlan& launch, Lines& out) {
  const bool trains = launch.form == LaunchForm::kTraining;
  out.set("validation.eval_iters", trains ? 10 : 0);
  out.set("validation.eval_interval", trains ? 500 : 1000);
  out.set("logger.log_interval", trains ? 10 : 1);
  out.set("logger.log_throughput", true);
  if (!trains) {
    out.set("tokenizer.tokenizer_type", "\"NullTokenizer\"");
    out.set("tokenizer.vocab_size", launch.job.model.vocab);
    out.set("checkpoint.save", "None");
    out.set("checkpoint.load", "None");
    return;
  }
  out.set("dataset.blend", "[[os.environ[\"DATA_PATH\"]], None]");
  out.set("dataset.split", "\"99,1,0\"");
  out.set("tokenizer.tokenizer_type", "\"HuggingFaceTokenizer\"");
  out.set("tokenizer.tokenizer_model", "os.environ[\"TOKENIZER_MODEL\"]");
  out.set("checkpoint.save", "os.environ[\"CHECKPOINTS\"]");
  out.set("checkpoint.load", "os.environ[\"CHECKPOINTS\"]");
  out.set("checkpoint.save_interval", 500);
}

void set_training(const LaunchPlan& launch, Lines& out) {
  out.set("train.global_batch_size", launch.job.global_batch);
  out.set("train.micro_batch_size", launch.plan.micro_batch);
  out.set("train.train_iters", launch.steps);
  out.set("train.manual_gc", true);
  out.set("train.manual_gc_interval", 100);
  out.set("dist.distributed_timeout_minutes", 60);
  out.set("scheduler.lr_warmup_iters", warmup_steps(launch));
  out.set("dataset.seq_length", launch.job.sequence);
  set_data(launch, out);
}

std::string expected_log(const LaunchPlan& launch) {
  return fmt::format(
      "elapsed time per iteration (ms): {:.1f}, throughput per GPU (TFLOP/s/GPU): "
      "{:.1f}, {:.2f} GiB allocated",
      1e3 * launch.step_seconds, launch.model_tflops_per_gpu, launch.peak_allocated_gib);
}

}  // namespace

LaunchFile write_megatron_bridge(const LaunchPlan& launch) {
  refuse_plans_unknown_to_megatron(launch, "Megatron-Bridge");
  Lines out;
  out.lines = bridge_model_lines(launch);
  set_degrees(launch, out);
  set_recompute(launch.plan, out);
  set_kernels(launch, out);
  set_types(launch.job, out);
  set_sharding(launch, out);
  set_training(launch, out);
  LaunchFile file;
  const bool one = wants_one_connection(launch);
  file.command = fmt::format(
      "{}{} {}", one ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "env -u CUDA_DEVICE_MAX_CONNECTIONS ",
      torchrun(launch), shell_word(launch.file));
  // The first line decides the encoding: no name in the heading can.
  file.text = "# -*- coding: utf-8 -*-\n" +
              commented(heading(launch, file.command, "Megatron-Bridge 067f987d (August 2026)",
                                expected_log(launch))) +
              kImports + "\ncfg = _pretrain_common()\n";
  for (const std::string& line : out.lines) {
    file.text += line + "\n";
  }
  file.text += "\nif __name__ == \"__main__\":\n    pretrain(cfg, forward_step)\n";
  return file;
}

}  // namespace trireme::planner
