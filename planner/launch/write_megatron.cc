// Source: Megatron-LM d98e8a64, training/arguments.py.
#include "planner/launch/write_megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/megatron_model_arguments.h"
#include "planner/launch/megatron_refusals.h"
#include "planner/launch/megatron_stages.h"
#include "planner/launch/quoting.h"
#include "planner/plan/shape.h"

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
    text += overlaps_experts(launch.job, plan) ? " --overlap-moe-expert-parallel-comm" : "";
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
  // Local layers start without Transformer Engine, whose fused rotation they would ask for, and
  // without Apex, whose norm alone has the persistent kernel.
  std::string text = local ? "--transformer-impl local --no-persist-layer-norm --no-rope-fusion"
                           : "--transformer-impl transformer_engine --attention-backend " +
                                 std::string(unfused ? "unfused" : "auto");
  text += framework.cross_entropy_fusion
              ? " --cross-entropy-loss-fusion --cross-entropy-fusion-impl native"
              : "";
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

// Without the flag every process builds a mask of seq x seq bytes, 16 GiB at 128k.
constexpr const char* kHouseArguments =
    "--no-create-attention-mask-in-dataloader --manual-gc --manual-gc-interval 100 "
    "--distributed-timeout-minutes 60 --log-throughput";

std::string schedule_arguments(const LaunchPlan& launch) {
  return fmt::format(
      "--train-iters {} --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters {} "
      "--weight-decay 0.1 --clip-grad 1.0 --adam-beta1 0.9 --adam-beta2 0.95",
      launch.steps, warmup_steps(launch));
}

// eval-interval has no default from 2026 on, and is divided by even where nothing is evaluated.
std::string data_arguments(const LaunchPlan& launch) {
  const std::string vocabulary =
      fmt::format(" --vocab-size {} --make-vocab-size-divisible-by {}", launch.job.model.vocab,
                  launch.job.framework.pad_vocabulary ? 128 : 1);
  if (launch.form == LaunchForm::kBenchmark) {
    return "--mock-data --split 99,1,0 --tokenizer-type NullTokenizer" + vocabulary +
           " --eval-iters 0 --eval-interval 1000 --log-interval 1";
  }
  return "--data-path \"$DATA_PATH\" --split 99,1,0 --tokenizer-type HuggingFaceTokenizer "
         "--tokenizer-model \"$TOKENIZER_MODEL\"" +
         vocabulary +
         " --save \"$CHECKPOINTS\" --load \"$CHECKPOINTS\" --save-interval 500 --eval-iters 10 "
         "--eval-interval 500 --log-interval 10 --tensorboard-dir \"$CHECKPOINTS/tensorboard\"";
}

constexpr const char* kTrainingSlots =
    "# What is trained on, and where it is kept.\n"
    "DATA_PATH=${DATA_PATH:?is the prefix of the tokenized data, without .bin}\n"
    "TOKENIZER_MODEL=${TOKENIZER_MODEL:?is a Hugging Face name or folder}\n"
    "CHECKPOINTS=${CHECKPOINTS:?is the folder to save to and to resume from}\n";

std::string expected_log(const LaunchPlan& launch) {
  constexpr double kMegabytesOfGib = 1024;  // the log's MB are of 2^20 bytes
  return fmt::format(
      "elapsed time per iteration (ms): {:.1f}, throughput per GPU (TFLOP/s/GPU): {:.1f}, max "
      "allocated (MB): {:.0f}, max reserved (MB): {:.0f}",
      1e3 * launch.step_seconds, launch.model_tflops_per_gpu,
      kMegabytesOfGib * launch.peak_allocated_gib, kMegabytesOfGib * launch.peak_reserved_gib);
}

std::string exports(const LaunchPlan& launch) {
  std::string text = wants_one_connection(launch)
                         ? "# Launches must keep their order on the GPU before Blackwell.\n"
                           "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                         : "unset CUDA_DEVICE_MAX_CONNECTIONS\n";
  for (const std::string& variable : environment(launch)) {
    text += "export " + variable + "\n";
  }
  if (launch.launcher == Launcher::kSlurm) {
    text += "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  }
  return text;
}

}  // namespace

LaunchFile write_megatron(const LaunchPlan& launch) {
  refuse_plans_unknown_to_megatron(launch, "Megatron-LM");
  std::vector<std::string> lines = megatron_model_arguments(launch);
  for (const std::string& group :
       {batch_arguments(launch), tensor_arguments(launch), pipeline_arguments(launch),
        sharding_arguments(launch), precision_arguments(launch), kernel_arguments(launch),
        optimizer_arguments(launch), recompute_arguments(launch.plan), schedule_arguments(launch),
        data_arguments(launch), std::string(kHouseArguments)}) {
    if (!group.empty()) {
      lines.push_back(group);
    }
  }
  const bool slurm = launch.launcher == Launcher::kSlurm;
  LaunchFile file;
  file.command = (slurm ? "sbatch " : "bash ") + shell_word(launch.file);
  file.text =
      "#!/usr/bin/env bash\n" + (slurm ? slurm_header(launch) : "") +
      commented(heading(launch, file.command, "Megatron-LM d98e8a64 (August 2026), from its folder",
                        expected_log(launch))) +
      exports(launch) + (launch.form == LaunchForm::kTraining ? kTrainingSlots : "");
  file.text += torchrun(launch) + " pretrain_gpt.py";
  for (const std::string& line : lines) {
    file.text += " \\\n  " + line;
  }
  file.text += "\n";
  return file;
}

}  // namespace trireme::planner
