// Source: Megatron-LM d98e8a64, training/arguments.py.
#include "planner/launch/write_megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/megatron_model_arguments.h"
#include "planner/launch/megatron_refusals.h"
#include "planner/launch/megatron_stages.h"

namespace trireme::planner {
namespace {

std::string batch_arguments(const LaunchPlan& launch) {
  const double dropout = launch.job.framework.dropout;
  return fmt::format(
      "--micro-batch-size {} --global-batch-size {} --attention-dropout {} "
      "--hidden-dropout {}",
      launch.plan.micro_batch, launch.job.global_batch, dropout, dropout);
}

std::string tensor_arguments(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  std::string text = fmt::format("--tensor-model-parallel-size {}", plan.tensor);
  text += plan.sequence_parallel ? " --sequence-parallel" : "";
  text += launch.job.framework.tp_comm_overlap && plan.tensor > 1 ? " --tp-comm-overlap" : "";
  text += fmt::format(" --context-parallel-size {}", plan.context);
  if (plan.context > 1) {
    text += launch.job.framework.context_all_to_all ? " --cp-comm-type a2a" : " --cp-comm-type p2p";
  }
  if (launch.job.model.moe) {
    text += fmt::format(" --expert-model-parallel-size {} --expert-tensor-parallel-size {}",
                        plan.expert, plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor);
  }
  return text;
}

std::string pipeline_arguments(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  std::string text = fmt::format("--pipeline-model-parallel-size {}", plan.pipeline);
  if (plan.pipeline == 1) {
    return text;
  }
  const StageSplit split = megatron_stages(launch);
  if (!split.layout.empty()) {
    text += fmt::format(" --pipeline-model-parallel-layout \"{}\"", split.layout);
  } else if (plan.virtual_pipeline > 1) {
    text += fmt::format(" --num-virtual-stages-per-pipeline-rank {}", plan.virtual_pipeline);
  }
  text += split.account_for_embedding ? " --account-for-embedding-in-pipeline-split" : "";
  text += split.account_for_loss ? " --account-for-loss-in-pipeline-split" : "";
  if (split.first_stage > 0) {
    text +=
        fmt::format(" --decoder-first-pipeline-num-layers {} --decoder-last-pipeline-num-layers {}",
                    split.first_stage, split.last_stage);
  }
  if (plan.virtual_pipeline > 1 && !launch.job.framework.p2p_overlap_interleaved) {
    text += " --no-overlap-p2p-communication";
  }
  return text + (pipeline_before_data(plan) ? " --use-tp-pp-dp-mapping" : "");
}

std::string sharding_arguments(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  std::string text;
  switch (megatron_sharding(launch)) {
    case MegatronSharding::kReplicated:
      break;
    case MegatronSharding::kDistributedOptimizer:
      text = "--use-distributed-optimizer";
      break;
    case MegatronSharding::kMegatronFsdp:
      text = fmt::format(
          "--use-megatron-fsdp --data-parallel-sharding-strategy {} "
          "--ckpt-format fsdp_dtensor --use-distributed-optimizer",
          fsdp_strategy(plan.sharding));
      break;
    case MegatronSharding::kTorchFsdp2:
      text = "--use-torch-fsdp2 --ckpt-format torch_dist";
      text += plan.reshard_after_forward ? "" : " --torch-fsdp2-no-reshard-after-forward";
      break;
  }
  if (plan.sharding != Sharding::kNone && plan.replicas > 1) {
    text += fmt::format(" --num-distributed-optimizer-instances {}", plan.replicas);
  }
  if (launch.job.framework.bucket_elements > 0) {
    text += fmt::format(" --ddp-bucket-size {}", launch.job.framework.bucket_elements);
  }
  const MegatronOverlap overlap = megatron_overlap(launch);
  text += overlap.grad_reduce ? " --overlap-grad-reduce" : "";
  text += overlap.param_gather ? " --overlap-param-gather" : "";
  return text.starts_with(' ') ? text.substr(1) : text;
}

std::string precision_arguments(const LaunchPlan& launch) {
  const Framework& framework = launch.job.framework;
  if (launch.job.precision == topologies::Precision::kFp32) {
    return "";
  }
  if (launch.job.precision == topologies::Precision::kFp16) {
    return "--fp16";
  }
  std::string text = "--bf16";
  if (launch.job.precision == topologies::Precision::kFp8) {
    text += " --fp8-format hybrid --fp8-recipe tensorwise";
    text += framework.fp8_parameters ? " --fp8-param-gather" : "";
  }
  return text + (framework.gradient_bytes < 4 ? " --grad-reduce-in-bf16" : "");
}

std::string kernel_arguments(const LaunchPlan& launch) {
  const Framework& framework = launch.job.framework;
  const bool local = framework.implementation == models::Implementation::kClassicMegatron;
  const bool unfused = launch.job.attention == models::AttentionKernel::kUnfused;
  std::string text = local ? "--transformer-impl local" : "--transformer-impl transformer_engine";
  text += unfused && !local ? " --attention-backend unfused" : "";
  text += framework.cross_entropy_fusion ? " --cross-entropy-loss-fusion" : "";
  const bool torch_fsdp = megatron_sharding(launch) == MegatronSharding::kTorchFsdp2;
  return text + (framework.gradient_accumulation_fusion && !torch_fsdp
                     ? ""
                     : " --no-gradient-accumulation-fusion");
}

std::string optimizer_arguments(const LaunchPlan& launch) {
  if (launch.job.optimizer == Optimizer::kSgd) {
    return "--optimizer sgd";
  }
  const int bytes = small_moment_bytes(launch.job);
  if (bytes == 0) {
    return "--optimizer adam";
  }
  const char* type = bytes == 1 ? "fp8" : "bf16";
  return fmt::format(
      "--optimizer adam --use-precision-aware-optimizer --exp-avg-dtype {} "
      "--exp-avg-sq-dtype {}",
      type, type);
}

std::string recompute_arguments(const Plan& plan) {
  if (plan.recompute == Recompute::kNone || plan.recompute_layers == 0) {
    return "";
  }
  if (plan.recompute == Recompute::kFull) {
    return plan.recompute_layers < 0
               ? "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
               : fmt::format(
                     "--recompute-granularity full --recompute-method block "
                     "--recompute-num-layers {}",
                     plan.recompute_layers);
  }
  std::string modules = module_names(plan.recompute_modules);
  std::replace(modules.begin(), modules.end(), '+', ' ');
  return "--recompute-granularity selective --recompute-modules " + modules;
}

}  // namespace

LaunchFile write_megatron(const LaunchPlan& launch) {
  refuse_plans_unknown_to_megatron(launch, "Megatron-LM");
  std::vector<std::string> lines = megatron_model_arguments(launch);
  for (const std::string& group :
       {batch_arguments(launch), tensor_arguments(launch), pipeline_arguments(launch),
        sharding_arguments(launch), precision_arguments(launch), kernel_arguments(launch),
        optimizer_arguments(launch), recompute_arguments(launch.plan),
        std::string("--mock-data --split 99,1,0 --train-iters 50 --lr 1e-4 --eval-iters 0 "
                    "--log-interval 1")}) {
    if (!group.empty()) {
      lines.push_back(group);
    }
  }
  const bool one = wants_one_connection(launch);
  LaunchFile file;
  file.command = "bash " + launch.file;
  std::vector<std::string> head =
      heading(launch, "Megatron-LM d98e8a64 (August 2026), from its folder");
  head.insert(head.begin(), fmt::format("Start {}: {}", where_to_start(launch), file.command));
  file.text = "#!/usr/bin/env bash\n" + commented(head);
  file.text += one ? "# Launches must keep their order on the GPU before Blackwell.\n"
                     "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                   : "unset CUDA_DEVICE_MAX_CONNECTIONS\n";
  for (const std::string& variable : environment(launch)) {
    file.text += "export " + variable + "\n";
  }
  file.text += torchrun(launch) + " pretrain_gpt.py";
  for (const std::string& line : lines) {
    file.text += " \\\n  " + line;
  }
  file.text += "\n";
  return file;
}

}  // namespace trireme::planner
