// Hugging Face accelerate's YAML as a table, written (read_accelerate.cc reads it). Sources:
// accelerate 16cb6eb8 (utils/dataclasses.py, parallelism_config.py); FullyShardedDataParallel for
// version 1's names.
#include <fmt/format.h>

#include "planner/launch/field_table.h"
#include "planner/launch/known_models.h"
#include "planner/launch/launch_facts.h"
#include "planner/plan/names.h"

namespace trireme::planner {
namespace {

using L = LaunchPlan;

bool first_version(const LaunchPlan& launch) {
  return launch.job.framework.sharder == Sharder::kFsdp1;
}

// Without shards FSDP 2 has nothing to do: DistributedDataParallel, or tp; FSDP 1 has NO_SHARD.
bool is_replicated(const LaunchPlan& launch) {
  return !first_version(launch) && launch.plan.sharding == Sharding::kNone;
}

FieldValue precision_name(const L& l) {
  const std::string_view name = kPrecisionNames.name_of(l.job.precision);
  return l.job.precision == topologies::Precision::kFp32 ? "no" : std::string(name);
}

FieldValue distributed_type(const L& l) {
  return !is_replicated(l) ? "FSDP" : l.plan.gpus() == 1 ? "NO" : "MULTI_GPU";
}

const char* first_version_strategy(const Plan& plan) {
  const bool hybrid = plan.replicas > 1;
  if (plan.sharding == Sharding::kFull) {
    return hybrid ? "HYBRID_SHARD" : "FULL_SHARD";
  }
  if (plan.sharding == Sharding::kGradients) {
    return hybrid ? "HYBRID_SHARD_ZERO2" : "SHARD_GRAD_OP";
  }
  return "NO_SHARD";
}

// A field of FSDP; `wanted`: of the first version (1), the second (2) or either (0).
FieldWriter fsdp(int wanted, FieldWriter write) {
  return [wanted, write = std::move(write)](const L& l) {
    const int version = first_version(l) ? 1 : 2;
    return is_replicated(l) || (wanted != 0 && wanted != version) ? FieldValue() : write(l);
  };
}

// Without a class, transformers' own _no_split_modules name the layer.
FieldValue layer_class(const L& l) {
  const std::string layer = model_family(l.job.model).layer_class;
  return when(l.plan.fsdp_unit != 0 && !layer.empty(), layer);
}

FieldWriter mesh(std::int64_t Plan::*degree) {
  return [degree](const L& l) {
    return when(!first_version(l) && (!is_replicated(l) || l.plan.tensor > 1), l.plan.*degree);
  };
}

bool is_compiled(const L& l) {
  return l.job.framework.compile;
}

}  // namespace

std::span<const Field> accelerate_fields() {
  static const std::vector<Field> kFields = {
      {"compute_environment", "LOCAL_MACHINE"},
      {"debug", false},
      {"distributed_type", distributed_type},
      {"downcast_bf16", "no"},
      {"mixed_precision", precision_name},
      {"num_machines", &L::hosts},
      {"num_processes", [](const L& l) { return l.plan.gpus(); }},
      {"machine_rank", 0},
      {"rdzv_backend", "static"},
      {"same_network", true},
      {"main_training_function", "main"},
      {"use_cpu", false},
      {"fsdp_config.fsdp_version", fsdp(0, either(first_version, 1, 2))},
      {"fsdp_config.fsdp_auto_wrap_policy", fsdp(0,
                                                 [](const L& l) {
                                                   return l.plan.fsdp_unit == 0
                                                              ? "NO_WRAP"
                                                              : "TRANSFORMER_BASED_WRAP";
                                                 })},
      {"fsdp_config.fsdp_transformer_layer_cls_to_wrap", fsdp(0, layer_class)},
      {"fsdp_config.fsdp_sharding_strategy",
       fsdp(1, [](const L& l) { return first_version_strategy(l.plan); })},
      {"fsdp_config.fsdp_backward_prefetch", fsdp(1, "BACKWARD_PRE")},
      {"fsdp_config.fsdp_forward_prefetch", fsdp(1, false)},
      {"fsdp_config.fsdp_use_orig_params", fsdp(1, true)},
      {"fsdp_config.fsdp_sync_module_states", fsdp(1, true)},
      {"fsdp_config.fsdp_reshard_after_forward", fsdp(2, &Plan::reshard_after_forward)},
      {"fsdp_config.fsdp_activation_checkpointing",
       fsdp(0, [](const L& l) { return l.plan.recompute == Recompute::kFull; })},
      {"fsdp_config.fsdp_offload_params",
       fsdp(0, [](const L& l) { return l.job.offload.parameters != OffloadTo::kNone; })},
      {"fsdp_config.fsdp_cpu_ram_efficient_loading", fsdp(0, false)},
      {"fsdp_config.fsdp_state_dict_type", fsdp(0, "SHARDED_STATE_DICT")},
      {"parallelism_config.parallelism_config_dp_replicate_size", mesh(&Plan::replicas)},
      {"parallelism_config.parallelism_config_dp_shard_size", mesh(&Plan::sharded)},
      {"parallelism_config.parallelism_config_tp_size", mesh(&Plan::tensor)},
      {"parallelism_config.parallelism_config_cp_size", mesh(&Plan::context)},
      {"parallelism_config.parallelism_config_cp_comm_strategy",
       [](const L& l) { return when(l.plan.context > 1, "allgather"); }},
      {"dynamo_config.dynamo_backend", given(is_compiled, "INDUCTOR")},
      {"dynamo_config.dynamo_mode", given(is_compiled, "default")},
      {"dynamo_config.dynamo_use_dynamic", given(is_compiled, false)},
      {"dynamo_config.dynamo_use_fullgraph", given(is_compiled, false)},
      {"dynamo_config.dynamo_use_regional_compilation", given(is_compiled, true)},
      {"fp8_config.fp8_backend", given(is_fp8, "AO")},
      {"fp8_config.fp8_enable_fsdp_float8_all_gather", given(is_fp8, &Framework::fp8_parameters)},
  };
  return kFields;
}

namespace {

std::string accelerate_command(const LaunchPlan& launch) {
  std::string text =
      environment_prefix(launch) + "accelerate launch --config_file " + shell_word(launch.file);
  if (launch.hosts > 1) {
    text += " --machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR --main_process_port 29500";
  }
  return text + fmt::format(
                    " train.py --per_device_train_batch_size {} "
                    "--gradient_accumulation_steps {} --max_length {}",
                    launch.plan.micro_batch, launch.plan.micro_batches, launch.job.sequence);
}

}  // namespace

LaunchFile write_accelerate(const LaunchPlan& launch) {
  LaunchFile file;
  file.command = accelerate_command(launch);
  std::vector<std::string> head =
      heading(launch, file.command, "accelerate 1.15 (16cb6eb8, July 2026)",
              fmt::format("{:.1f} ms a step, {:.0f} tokens/s a GPU, {:.2f} GiB by "
                          "torch.cuda.max_memory_allocated()",
                          1e3 * launch.step_seconds, launch.tokens_per_second_per_gpu,
                          launch.peak_allocated_gib));
  head.emplace_back(
      "train.py is your program: batch, accumulation, sequence and optimizer are its "
      "arguments, and the model its own.");
  if (const std::string choices = choices_of_the_program(launch.job); !choices.empty()) {
    head.push_back("The prediction has, and your program decides: " + choices + ".");
  }
  if (!is_replicated(launch) && launch.plan.micro_batches > 1 &&
      launch.job.framework.reduce_every_micro_batch) {
    head.push_back(
        fmt::format("The prediction reduces after every micro-batch: "
                    "GradientAccumulationPlugin(num_steps={}, sync_each_batch=True).",
                    launch.plan.micro_batches));
  }
  file.text = commented(head) + yaml_text(accelerate_fields(), launch);
  return file;
}

}  // namespace trireme::planner
