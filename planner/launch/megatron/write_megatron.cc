// The table of Megatron's fields as a shell script that each host runs, and as a Python file that
// torchrun starts. Sources: Megatron-LM d98e8a64, training/arguments.py; Megatron-Bridge 067f987d,
// recipes/common.py, training/pretrain.py.
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/export.h"
#include "planner/launch/field_table.h"
#include "planner/launch/function_spellings.h"
#include "planner/launch/megatron/megatron.h"

namespace trireme::planner {
namespace {

// Without the first flag every process builds a mask of seq x seq bytes, 16 GiB at 128k.
constexpr const char* kHouseArguments =
    "--no-create-attention-mask-in-dataloader --manual-gc --manual-gc-interval 100 "
    "--distributed-timeout-minutes 60 --log-throughput";
constexpr const char* kLearning =
    "--lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --weight-decay 0.1 --clip-grad 1.0 "
    "--adam-beta1 0.9 --adam-beta2 0.95";
// eval-interval has no default from 2026 on, and is divided by even where nothing is evaluated.
constexpr const char* kMockData =
    "--mock-data --split 99,1,0 --tokenizer-type NullTokenizer --eval-iters 0 --eval-interval 1000 "
    "--log-interval 1";
constexpr const char* kTrainingData =
    "--data-path \"$DATA_PATH\" --split 99,1,0 --tokenizer-type HuggingFaceTokenizer "
    "--tokenizer-model \"$TOKENIZER_MODEL\" --save \"$CHECKPOINTS\" --load \"$CHECKPOINTS\" "
    "--save-interval 500 --eval-iters 10 --eval-interval 500 --log-interval 10 --tensorboard-dir "
    "\"$CHECKPOINTS/tensorboard\"";
constexpr const char* kTrainingSlots =
    "# What is trained on, and where it is kept.\n"
    "DATA_PATH=${DATA_PATH:?is the prefix of the tokenized data, without .bin}\n"
    "TOKENIZER_MODEL=${TOKENIZER_MODEL:?is a Hugging Face name or folder}\n"
    "CHECKPOINTS=${CHECKPOINTS:?is the folder to save to and to resume from}\n";

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
constexpr const char* kBridgeHouse =
    "cfg.train.manual_gc = True\ncfg.train.manual_gc_interval = 100\n"
    "cfg.dist.distributed_timeout_minutes = 60\ncfg.logger.log_throughput = True\n";
constexpr const char* kBridgeMockData =
    "cfg.validation.eval_iters = 0\ncfg.validation.eval_interval = 1000\n"
    "cfg.logger.log_interval = 1\ncfg.tokenizer.tokenizer_type = \"NullTokenizer\"\n"
    "cfg.checkpoint.save = None\ncfg.checkpoint.load = None\n";
constexpr const char* kBridgeTrainingData =
    "cfg.validation.eval_iters = 10\ncfg.validation.eval_interval = 500\n"
    "cfg.logger.log_interval = 10\ncfg.dataset.blend = [[os.environ[\"DATA_PATH\"]], None]\n"
    "cfg.dataset.split = \"99,1,0\"\ncfg.tokenizer.tokenizer_type = \"HuggingFaceTokenizer\"\n"
    "cfg.tokenizer.tokenizer_model = os.environ[\"TOKENIZER_MODEL\"]\n"
    "cfg.checkpoint.save = os.environ[\"CHECKPOINTS\"]\n"
    "cfg.checkpoint.load = os.environ[\"CHECKPOINTS\"]\ncfg.checkpoint.save_interval = 500\n";

// The lines of the table as arguments: one a topic.
std::string arguments_of(const LaunchPlan& launch) {
  std::string text;
  for (const MegatronTopic& topic : megatron_fields()) {
    std::string line;
    for (const MegatronField& field : topic) {
      const std::string flag =
          field.flag.empty() || !field.write ? "" : as_flag(field.flag, field.write(launch));
      line += (line.empty() || flag.empty() ? "" : " ") + flag;
    }
    text += line.empty() ? "" : " \\\n  " + line;
  }
  return text;
}

// What the model computes, besides its dimensions: one line of arguments.
std::string function_arguments(const models::Transformer& model) {
  std::string line;
  for (const FunctionSetting& setting : megatron_function(model, FunctionFormat::kMegatron)) {
    std::string flag = setting.name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const bool quoted = setting.value.find_first_of("([") != std::string::npos;
    line += (line.empty() ? "--" : " --") + flag;
    line += setting.value.empty() ? ""
            : quoted              ? " \"" + setting.value + "\""
                                  : " " + setting.value;
  }
  return line.empty() ? "" : " \\\n  " + line;
}

std::string function_assignments(const models::Transformer& model) {
  std::string text;
  for (const FunctionSetting& setting : megatron_function(model, FunctionFormat::kBridge)) {
    text += fmt::format("cfg.model.{} = {}\n", setting.name, setting.value);
  }
  return text;
}

std::string assignments_of(const LaunchPlan& launch) {
  std::string text;
  for (const MegatronTopic& topic : megatron_fields()) {
    for (const MegatronField& field : topic) {
      if (field.bridge.empty()) {
        continue;
      }
      FieldValue value = (field.write_bridge ? field.write_bridge : field.write)(launch);
      if (bool* on = std::get_if<bool>(&value);
          on != nullptr && field.use == MegatronUse::kOpposite) {
        *on = !*on;
      }
      const std::string written = as_python(value);
      text += written.empty() ? "" : fmt::format("cfg.{} = {}\n", field.bridge, written);
    }
  }
  return text;
}

std::string expected_log(const LaunchPlan& launch, const std::string& memory) {
  return fmt::format(
      "elapsed time per iteration (ms): {:.1f}, throughput per GPU (TFLOP/s/GPU): {:.1f}, {}",
      1e3 * launch.step_seconds, launch.model_tflops_per_gpu, memory);
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
  constexpr double kMegabytesOfGib = 1024;  // the log's MB are of 2^20 bytes
  const bool slurm = launch.launcher == Launcher::kSlurm;
  const bool trains = launch.form == LaunchForm::kTraining;
  LaunchFile file;
  file.command = (slurm ? "sbatch " : "bash ") + shell_word(launch.file);
  const std::string memory = fmt::format("max allocated (MB): {:.0f}, max reserved (MB): {:.0f}",
                                         kMegabytesOfGib * launch.peak_allocated_gib,
                                         kMegabytesOfGib * launch.peak_reserved_gib);
  file.text =
      "#!/usr/bin/env bash\n" + (slurm ? slurm_header(launch) : "") +
      commented(heading(launch, file.command, "Megatron-LM d98e8a64 (August 2026), from its folder",
                        expected_log(launch, memory))) +
      exports(launch) + (trains ? kTrainingSlots : "") + torchrun(launch) + " pretrain_gpt.py" +
      arguments_of(launch) + function_arguments(launch.job.model) +
      fmt::format(" \\\n  {} \\\n  {} \\\n  {}\n", kLearning, trains ? kTrainingData : kMockData,
                  kHouseArguments);
  return file;
}

LaunchFile write_megatron_bridge(const LaunchPlan& launch) {
  LaunchFile file;
  const bool one = wants_one_connection(launch);
  file.command = fmt::format(
      "{}{} {}", one ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "env -u CUDA_DEVICE_MAX_CONNECTIONS ",
      torchrun(launch), shell_word(launch.file));
  // The first line decides the encoding: no name in the heading can. Megatron-Bridge's providers
  // compute derived fields only once the run starts, so that all of them can be assigned.
  file.text =
      "# -*- coding: utf-8 -*-\n" +
      commented(heading(
          launch, file.command, "Megatron-Bridge 067f987d (August 2026)",
          expected_log(launch, fmt::format("{:.2f} GiB allocated", launch.peak_allocated_gib)))) +
      kImports +
      fmt::format("\ncfg = _pretrain_common()\ncfg.model = {}()\n",
                  launch.job.model.latent ? "MLAModelProvider" : "GPTModelProvider") +
      assignments_of(launch) + function_assignments(launch.job.model) + kBridgeHouse +
      (launch.form == LaunchForm::kTraining ? kBridgeTrainingData : kBridgeMockData) +
      "\nif __name__ == \"__main__\":\n    pretrain(cfg, forward_step)\n";
  return file;
}

}  // namespace trireme::planner
