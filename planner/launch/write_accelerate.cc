// Source: accelerate 16cb6eb8, commands/config/config_args.py, commands/launch.py,
// parallelism_config.py; PyTorch's FullyShardedDataParallel for the names of version 1.
#include "planner/launch/write_accelerate.h"

#include <fmt/format.h>

#include "planner/launch/accelerate_refusals.h"
#include "planner/launch/model_family.h"
#include "planner/launch/quoting.h"

namespace trireme::planner {
namespace {

bool first_version(const LaunchPlan& launch) {
  return launch.job.framework.sharder == Sharder::kFsdp1;
}

// Without shards there is nothing for FSDP 2 to do: DistributedDataParallel, or tensor parallelism
// alone. FSDP 1 has NO_SHARD for it.
bool is_plain(const LaunchPlan& launch) {
  return !first_version(launch) && launch.plan.sharding == Sharding::kNone;
}

std::string precision_name(topologies::Precision precision) {
  switch (precision) {
    case topologies::Precision::kFp16:
      return "fp16";
    case topologies::Precision::kFp8:
    case topologies::Precision::kFp4:
      return "fp8";
    case topologies::Precision::kBf16:
      return "bf16";
    case topologies::Precision::kFp32:
    case topologies::Precision::kTf32:
      break;
  }
  return "'no'";
}

std::string machine_fields(const LaunchPlan& launch) {
  const char* type = is_plain(launch) ? (launch.plan.gpus() == 1 ? "'NO'" : "MULTI_GPU") : "FSDP";
  return fmt::format(
      "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: {}\n"
      "downcast_bf16: 'no'\nmixed_precision: {}\nnum_machines: {}\nnum_processes: {}\n"
      "machine_rank: 0\nrdzv_backend: static\nsame_network: true\nmain_training_function: main\n"
      "use_cpu: false\n",
      type, precision_name(launch.job.precision), launch.hosts, launch.plan.gpus());
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

std::string wrap_fields(const LaunchPlan& launch) {
  if (launch.plan.fsdp_unit == 0) {
    return "  fsdp_auto_wrap_policy: NO_WRAP\n";
  }
  // Without a class, transformers' own _no_split_modules name the layer.
  const std::string layer = model_family(launch.job.model).layer_class;
  return "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n" +
         (layer.empty() ? "" : "  fsdp_transformer_layer_cls_to_wrap: " + layer + "\n");
}

std::string fsdp_section(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  if (is_plain(launch)) {
    return "";
  }
  std::string text =
      fmt::format("fsdp_config:\n  fsdp_version: {}\n", first_version(launch) ? 1 : 2);
  text += wrap_fields(launch);
  if (first_version(launch)) {
    text += fmt::format(
        "  fsdp_sharding_strategy: {}\n  fsdp_backward_prefetch: BACKWARD_PRE\n"
        "  fsdp_forward_prefetch: false\n  fsdp_use_orig_params: true\n"
        "  fsdp_sync_module_states: true\n",
        first_version_strategy(plan));
  } else {
    text += fmt::format("  fsdp_reshard_after_forward: {}\n", plan.reshard_after_forward);
  }
  return text + fmt::format(
                    "  fsdp_activation_checkpointing: {}\n  fsdp_offload_params: false\n"
                    "  fsdp_cpu_ram_efficient_loading: false\n"
                    "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
                    plan.recompute == Recompute::kFull);
}

std::string parallelism_section(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  if (first_version(launch) || (is_plain(launch) && plan.tensor == 1)) {
    return "";
  }
  std::string text = fmt::format(
      "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n"
      "  parallelism_config_dp_shard_size: {}\n  parallelism_config_tp_size: {}\n"
      "  parallelism_config_cp_size: {}\n",
      plan.replicas, plan.sharded, plan.tensor, plan.context);
  return text + (plan.context > 1 ? "  parallelism_config_cp_comm_strategy: allgather\n" : "");
}

std::string compile_section(const LaunchPlan& launch) {
  std::string text;
  if (launch.job.framework.compile) {
    text +=
        "dynamo_config:\n  dynamo_backend: INDUCTOR\n  dynamo_mode: default\n"
        "  dynamo_use_dynamic: false\n  dynamo_use_fullgraph: false\n"
        "  dynamo_use_regional_compilation: true\n";
  }
  if (launch.job.precision == topologies::Precision::kFp8) {
    text += fmt::format("fp8_config:\n  fp8_backend: AO\n  fp8_enable_fsdp_float8_all_gather: {}\n",
                        launch.job.framework.fp8_parameters);
  }
  return text;
}

std::string command_of(const LaunchPlan& launch) {
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
  refuse_plans_unknown_to_accelerate(launch);
  LaunchFile file;
  file.command = command_of(launch);
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
  if (!is_plain(launch) && launch.plan.micro_batches > 1 &&
      launch.job.framework.reduce_every_micro_batch) {
    head.push_back(
        fmt::format("The prediction reduces after every micro-batch: "
                    "GradientAccumulationPlugin(num_steps={}, sync_each_batch=True).",
                    launch.plan.micro_batches));
  }
  file.text = commented(head) + machine_fields(launch) + fsdp_section(launch) +
              parallelism_section(launch) + compile_section(launch);
  return file;
}

}  // namespace trireme::planner
