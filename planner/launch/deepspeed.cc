// DeepSpeed's JSON: its fields as a table, written (read_deepspeed.cc reads it). Sources: DeepSpeed
// edaa7221, runtime/config.py and runtime/zero/config.py (defaults), docs/_pages/config-json.md.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/export.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_facts.h"
#include "planner/launch/launch_layout.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

using L = LaunchPlan;

FieldValue type_name(const L& l, double bytes) {
  return bytes == 4 ? "fp32" : l.job.precision == topologies::Precision::kFp16 ? "fp16" : "bf16";
}

int stage_of(const L& l) {
  return static_cast<int>(run_sharding(l.job, l.plan).sharding);
}

FieldValue stage(const L& l) {
  return stage_of(l);
}

bool is_third_stage(const L& l) {
  return l.plan.sharding == Sharding::kFull;
}

bool has_buckets(const L& l) {
  return l.job.framework.bucket_elements > 0;
}

bool is_sgd(const L& l) {
  return l.job.optimizer == Optimizer::kSgd;
}

// ZeRO's own list has Adam, Adagrad, Lion and Muon (runtime/zero/utils.py).
bool is_untested(const L& l) {
  return is_sgd(l) && stage_of(l) > 0;
}

bool shards_in_groups(const L& l) {
  return is_third_stage(l) && l.plan.replicas > 1;
}

bool offloads_parameters(const L& l) {
  return l.job.offload.parameters != OffloadTo::kNone;
}

bool offloads_checkpoints(const L& l) {
  return l.job.offload.activations != OffloadTo::kNone;
}

FieldWriter degree_above_one(std::int64_t Plan::*degree) {
  return [degree](const L& l) { return when(l.plan.*degree > 1, l.plan.*degree); };
}

}  // namespace

std::span<const Field> deepspeed_fields() {
  static const std::vector<Field> kFields = {
      // The batch is checked before the engine knows of tensor ranks, and would be theirs too.
      {"train_batch_size", [](const L& l) { return when(l.plan.tensor == 1, l.job.global_batch); }},
      {"train_micro_batch_size_per_gpu", &Plan::micro_batch},
      {"gradient_accumulation_steps", &Plan::micro_batches},
      {"gradient_clipping", 1.0},
      {"optimizer.type", either(is_sgd, "SGD", "AdamW")},
      {"optimizer.params.lr", either(is_sgd, 1e-2, 3e-4)},
      {"optimizer.params.betas", either(is_sgd, nullptr, Expression{"[0.9, 0.95]"})},
      {"optimizer.params.eps", either(is_sgd, nullptr, 1e-8)},
      {"zero_allow_untested_optimizer", given(is_untested, true)},
      {"scheduler.type", given(trains, "WarmupCosineLR")},
      {"scheduler.params.warmup_num_steps", given(trains, warmup_steps)},
      {"scheduler.params.total_num_steps", given(trains, &L::steps)},
      {"scheduler.params.cos_min_ratio", given(trains, 0.1)},
      {"steps_per_print", either(trains, 10, 1)},
      {"fp16.enabled", given(is_fp16, true)},
      {"fp16.loss_scale", given(is_fp16, 0)},
      {"bf16.enabled", either(is_fp16, nullptr, given(is_mixed, true))},
      {"data_types.grad_accum_dtype",
       [](const L& l) { return when(is_mixed(l), type_name(l, l.job.framework.gradient_bytes)); }},
      {"communication_data_type",
       [](const L& l) { return when(is_mixed(l), type_name(l, l.job.framework.reduce_bytes)); }},
      {"zero_optimization.stage", stage},
      {"zero_optimization.overlap_comm", &Framework::overlap_grad_reduce},
      {"zero_optimization.contiguous_gradients", true},
      {"zero_optimization.reduce_scatter", true},
      {"zero_optimization.reduce_bucket_size", given(has_buckets, &Framework::bucket_elements)},
      {"zero_optimization.allgather_bucket_size", given(has_buckets, &Framework::bucket_elements)},
      {"zero_optimization.stage3_prefetch_bucket_size", given(is_third_stage, 50'000'000)},
      {"zero_optimization.stage3_param_persistence_threshold", given(is_third_stage, 100'000)},
      {"zero_optimization.stage3_max_live_parameters", given(is_third_stage, 1'000'000'000)},
      {"zero_optimization.sub_group_size",
       given(
           [](const L& l) {
             return is_third_stage(l) && l.job.framework.sub_group_elements != 1'000'000'000;
           },
           &Framework::sub_group_elements)},
      {"zero_optimization.stage3_max_reuse_distance", given(is_third_stage, 1'000'000'000)},
      {"zero_optimization.offload_optimizer.device", given(offloads_optimizer, "cpu")},
      {"zero_optimization.offload_optimizer.pin_memory",
       given(offloads_optimizer, &Framework::offload_pinned)},
      {"zero_optimization.offload_optimizer.ratio",
       given([](const L& l) { return offloads_optimizer(l) && l.job.offload.optimizer_share < 1; },
             [](const L& l) { return l.job.offload.optimizer_share; })},
      {"zero_optimization.offload_param.device", given(offloads_parameters, "cpu")},
      {"zero_optimization.offload_param.pin_memory",
       given(offloads_parameters, &Framework::offload_pinned)},
      {"activation_checkpointing.cpu_checkpointing", given(offloads_checkpoints, true)},
      {"zero_optimization.mics_shard_size", given(shards_in_groups, &Plan::sharded)},
      {"zero_optimization.mics_hierarchical_params_gather", given(shards_in_groups, false)},
      {"tensor_parallel.autotp_size", degree_above_one(&Plan::tensor)},
      {"sequence_parallel_size", degree_above_one(&Plan::context)},
      {"expert_parallel.enabled", [](const L& l) { return when(l.plan.expert > 1, true); }},
      {"expert_parallel.autoep_size", degree_above_one(&Plan::expert)},
      {"pipeline.stages", degree_above_one(&Plan::pipeline)},
      {"pipeline.activation_checkpoint_interval",
       [](const L& l) {
         return when(l.plan.pipeline > 1 && l.plan.recompute == Recompute::kFull, 1);
       }},
  };
  return kFields;
}

namespace {

std::string deepspeed_command(const LaunchPlan& launch) {
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
  LaunchFile file;
  file.command = deepspeed_command(launch);
  file.text = json_text(deepspeed_fields(), launch);
  file.remarks = remarks_of(launch, file.command);
  return file;
}

}  // namespace trireme::planner
