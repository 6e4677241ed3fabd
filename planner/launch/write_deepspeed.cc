// Source: DeepSpeed edaa7221, runtime/config.py, runtime/zero/config.py and
// docs/_pages/config-json.md.
#include "planner/launch/write_deepspeed.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/launch/deepspeed_refusals.h"
#include "planner/launch/quoting.h"

namespace trireme::planner {
namespace {

using Json = nlohmann::ordered_json;

const char* type_name(const Job& job, double bytes) {
  if (bytes == 4) {
    return "fp32";
  }
  return job.precision == topologies::Precision::kFp16 ? "fp16" : "bf16";
}

Json zero_section(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  const Framework& framework = launch.job.framework;
  // Without a stage the engine refuses fp32 sums beside 16-bit parameters (runtime/engine.py); over
  // one data-parallel rank stage 1 shards nothing.
  const bool alone = plan.sharding == Sharding::kNone && plan.data_parallel() == 1;
  const bool mixed = launch.job.precision != topologies::Precision::kFp32;
  const int stage = alone && mixed ? 1 : static_cast<int>(plan.sharding);
  Json zero = {{"stage", stage},
               {"overlap_comm", framework.overlap_grad_reduce},
               {"contiguous_gradients", true},
               {"reduce_scatter", true}};
  if (framework.bucket_elements > 0) {
    zero["reduce_bucket_size"] = framework.bucket_elements;
    zero["allgather_bucket_size"] = framework.bucket_elements;
  }
  if (plan.sharding == Sharding::kFull) {
    zero["stage3_prefetch_bucket_size"] = 50'000'000;
    zero["stage3_param_persistence_threshold"] = 100'000;
    zero["stage3_max_live_parameters"] = 1'000'000'000;
    zero["stage3_max_reuse_distance"] = 1'000'000'000;
    if (plan.replicas > 1) {
      zero["mics_shard_size"] = plan.sharded;
      zero["mics_hierarchical_params_gather"] = false;
    }
  }
  return zero;
}

void add_precision(const Job& job, Json& json) {
  if (job.precision == topologies::Precision::kFp32) {
    return;
  }
  if (job.precision == topologies::Precision::kFp16) {
    json["fp16"] = {{"enabled", true}, {"loss_scale", 0}};
  } else {
    json["bf16"] = {{"enabled", true}};
  }
  json["data_types"] = {{"grad_accum_dtype", type_name(job, job.framework.gradient_bytes)}};
  json["communication_data_type"] = type_name(job, job.framework.reduce_bytes);
}

void add_model_parallelism(const LaunchPlan& launch, Json& json) {
  const Plan& plan = launch.plan;
  if (plan.tensor > 1) {
    json["tensor_parallel"] = {{"autotp_size", plan.tensor}};
  }
  if (plan.context > 1) {
    json["sequence_parallel_size"] = plan.context;
  }
  if (plan.expert > 1) {
    json["expert_parallel"] = {{"enabled", true}, {"autoep_size", plan.expert}};
  }
  if (plan.pipeline > 1) {
    json["pipeline"] = {{"stages", plan.pipeline}};
    if (plan.recompute == Recompute::kFull) {
      json["pipeline"]["activation_checkpoint_interval"] = 1;
    }
  }
}

std::string command_of(const LaunchPlan& launch) {
  std::string text = environment_prefix(launch) +
                     fmt::format("deepspeed --num_gpus {}", launch.processes_per_host);
  if (launch.hosts > 1) {
    text += fmt::format(" --num_nodes {} --hostfile hostfile", launch.hosts);
  }
  return text + " train.py --deepspeed --deepspeed_config " + shell_word(launch.file);
}

// What the program itself must do, for JSON has neither a field nor a comment for it.
std::vector<std::string> remarks_of(const LaunchPlan& launch, const std::string& command) {
  const Plan& plan = launch.plan;
  const std::string expected =
      fmt::format("CurrSamplesPerSec={:.3f}, MaxMemAllocated={:.2f}GB (steps of {:.1f} ms)",
                  static_cast<double>(launch.job.global_batch) / launch.step_seconds,
                  launch.peak_allocated_gib, 1e3 * launch.step_seconds);
  std::vector<std::string> remarks =
      heading(launch, command, "DeepSpeed edaa7221 (August 2026)", expected);
  remarks.push_back("your train.py builds the model, reads sequences of " +
                    std::to_string(launch.job.sequence) + " tokens and calls deepspeed.initialize");
  if (const std::string choices = choices_of_the_program(launch.job); !choices.empty()) {
    remarks.push_back("the prediction has, and your program decides: " + choices);
  }
  if (plan.pipeline > 1) {
    remarks.push_back(
        fmt::format("the engine takes its stages from the program: "
                    "PipelineModule(num_stages={}, partition_method='uniform')",
                    plan.pipeline));
  } else if (plan.recompute == Recompute::kFull) {
    remarks.emplace_back("every layer recomputes: call model.gradient_checkpointing_enable()");
  }
  if (plan.context > 1) {
    remarks.push_back(
        fmt::format("Ulysses is switched on in the program: "
                    "UlyssesSPAttentionHF.register_with_transformers("
                    "sequence_parallel_size={})",
                    plan.context));
  }
  if (plan.sharding == Sharding::kFull && plan.replicas > 1) {
    remarks.emplace_back("MiCS needs the model built under deepspeed.zero.MiCS_Init");
  }
  return remarks;
}

}  // namespace

LaunchFile write_deepspeed(const LaunchPlan& launch) {
  refuse_plans_unknown_to_deepspeed(launch);
  const Plan& plan = launch.plan;
  // The batch is checked before the engine knows of tensor ranks, and would be theirs too.
  Json json =
      plan.tensor > 1 ? Json::object() : Json{{"train_batch_size", launch.job.global_batch}};
  json["train_micro_batch_size_per_gpu"] = plan.micro_batch;
  json["gradient_accumulation_steps"] = plan.micro_batches;
  json["gradient_clipping"] = 1.0;
  json["optimizer"] = launch.job.optimizer == Optimizer::kSgd
                          ? Json{{"type", "SGD"}, {"params", {{"lr", 1e-2}}}}
                          : Json{{"type", "AdamW"},
                                 {"params", {{"lr", 3e-4}, {"betas", {0.9, 0.95}}, {"eps", 1e-8}}}};
  if (launch.form == LaunchForm::kTraining) {
    json["scheduler"] = {{"type", "WarmupCosineLR"},
                         {"params",
                          {{"warmup_num_steps", warmup_steps(launch)},
                           {"total_num_steps", launch.steps},
                           {"cos_min_ratio", 0.1}}}};
  }
  json["steps_per_print"] = launch.form == LaunchForm::kTraining ? 10 : 1;
  add_precision(launch.job, json);
  json["zero_optimization"] = zero_section(launch);
  add_model_parallelism(launch, json);
  LaunchFile file;
  file.command = command_of(launch);
  file.text = json.dump(2) + "\n";
  file.remarks = remarks_of(launch, file.command);
  return file;
}

}  // namespace trireme::planner
