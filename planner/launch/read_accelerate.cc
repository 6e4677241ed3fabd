// accelerate's YAML, read. Sources: accelerate 16cb6eb8 (commands/config/config_args.py,
// commands/launch.py, utils/dataclasses.py).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_layout.h"
#include "planner/launch/read_launch.h"
#include "planner/plan/names.h"

namespace trireme::planner {
namespace {

// Read beside the fields that are written, or known to matter for neither memory nor time.
constexpr std::string_view kAccelerateOthers =
    "main_process_ip main_process_port gpu_ids enable_cpu_affinity gradient_accumulation_steps "
    "gradient_clipping fp16 tpu_name tpu_zone tpu_vm tpu_env tpu_use_cluster tpu_use_sudo commands "
    "command_file mpirun_config parallelism_config fsdp_config.fsdp_min_num_params "
    "fsdp_config.fsdp_backward_prefetch_policy fsdp_config.fsdp_param_init_fn "
    "fsdp_config.fsdp_limit_all_gathers";
constexpr std::string_view kAccelerateSections =
    "deepspeed_config. megatron_lm_config. parallelism_config. dynamo_config. fp8_config.";

constexpr std::string_view kAccelerateInside =
    "deepspeed_config.deepspeed_config_file deepspeed_config.zero_stage "
    "deepspeed_config.gradient_accumulation_steps deepspeed_config.gradient_clipping "
    "deepspeed_config.offload_optimizer_device deepspeed_config.offload_param_device "
    "deepspeed_config.offload_optimizer_nvme_path deepspeed_config.offload_param_nvme_path "
    "deepspeed_config.zero3_init_flag deepspeed_config.zero3_save_16bit_model "
    "parallelism_config.parallelism_config_cp_backend "
    "parallelism_config.parallelism_config_sp_size "
    "parallelism_config.parallelism_config_sp_backend "
    "parallelism_config.parallelism_config_sp_seq_length "
    "parallelism_config.parallelism_config_sp_seq_length_is_variable "
    "parallelism_config.parallelism_config_sp_attn_implementation "
    "megatron_lm_config.megatron_lm_tp_degree megatron_lm_config.megatron_lm_pp_degree "
    "megatron_lm_config.megatron_lm_num_micro_batches "
    "megatron_lm_config.megatron_lm_sequence_parallelism "
    "megatron_lm_config.megatron_lm_gradient_clipping "
    "megatron_lm_config.megatron_lm_recompute_activations "
    "megatron_lm_config.megatron_lm_use_distributed_optimizer";

// Names of accelerate 0.5 to 0.10: fp16 as a switch, fields of FSDP without their prefix.
void rename_older(LaunchConfig& config) {
  for (LaunchSetting& setting : config.settings) {
    if (setting.key.starts_with("fsdp_config.") && !setting.key.starts_with("fsdp_config.fsdp_")) {
      setting.key.insert(std::string_view("fsdp_config.").size(), "fsdp_");
    }
  }
  for (LaunchSetting& setting : config.settings) {
    if (setting.key == "dynamo_backend") {  // of 0.13 to 0.16
      setting.key = "dynamo_config.dynamo_backend";
    }
  }
  if (!has_setting(config, "mixed_precision") && is_on(config, "fp16")) {
    config.settings.push_back(
        {"mixed_precision", "fp16", "fp16", find_setting(config, "fp16")->line});
  }
}

void read_fsdp(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const bool second = integer_setting(config, "fsdp_config.fsdp_version", 1, 2).value_or(1) == 2;
  config.framework = second ? "fsdp2" : "fsdp1";
  layout.sharding = Sharding::kFull;
  std::string strategy =
      in_capitals(text_setting(config, "fsdp_config.fsdp_sharding_strategy", "FULL_SHARD"));
  if (second) {
    layout.reshard_after_forward = !is_among(
        "FALSE NO OFF N F 0",
        in_capitals(text_setting(config, "fsdp_config.fsdp_reshard_after_forward", "true")));
    strategy = "FULL_SHARD";
  }
  if (strategy == "NO_SHARD" || strategy == "3") {
    layout.sharding = Sharding::kNone;
  }
  const bool hybrid = strategy.starts_with("HYBRID") || strategy == "4" || strategy == "5";
  layout.shards_in_node = hybrid;
  if (strategy == "SHARD_GRAD_OP" || strategy == "2" || strategy == "5" ||
      strategy.ends_with("ZERO2")) {
    layout.reshard_after_forward = false;
  }
  if (!hybrid && layout.sharding != Sharding::kNone) {
    layout.replicas = 1;
  }
  config.recompute_is_open = !has_setting(config, "fsdp_config.fsdp_activation_checkpointing");
  if (is_on(config, "fsdp_config.fsdp_activation_checkpointing")) {
    layout.recompute = Recompute::kFull;
  }
  // FullyShardedDataParallelPlugin: NO_WRAP where neither the file nor its own environment says it.
  if (in_capitals(text_setting(config, "fsdp_config.fsdp_auto_wrap_policy", "NO_WRAP")) ==
      "NO_WRAP") {
    layout.fsdp_unit = 0;
    if (!has_setting(config, "fsdp_config.fsdp_auto_wrap_policy")) {
      config.remarks.emplace_back(
          "the file names no fsdp_auto_wrap_policy, and accelerate wraps no layer then: all "
          "parameters are gathered at once (TRANSFORMER_BASED_WRAP wraps each)");
    }
  }
  if (is_on(config, "fsdp_config.fsdp_offload_params")) {
    config.offload = {"parameters"};  // CPUOffload(offload_params=True)
  }
}

void read_megatron_plugin(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const auto degree = [&](const char* key) {
    return integer_setting(config, fmt::format("megatron_lm_config.megatron_lm_{}", key), 1,
                           1'000'000);
  };
  config.framework = "megatron";
  layout.tensor = degree("tp_degree");
  layout.pipeline = degree("pp_degree");
  layout.micro_batches = degree("num_micro_batches");
  layout.sequence_parallel = is_on(config, "megatron_lm_config.megatron_lm_sequence_parallelism");
  if (is_on(config, "megatron_lm_config.megatron_lm_use_distributed_optimizer")) {
    layout.sharding = Sharding::kOptimizer;
    layout.replicas = 1;
  }
  if (is_on(config, "megatron_lm_config.megatron_lm_recompute_activations")) {
    layout.recompute = Recompute::kSelective;
  }
}

// The settings of a JSON file beside this one, or those of the plugin by their JSON names.
void read_deepspeed_plugin(LaunchConfig& config) {
  const std::string file = text_setting(config, "deepspeed_config.deepspeed_config_file");
  if (!file.empty()) {
    const auto path = std::filesystem::path(config.source).parent_path() / file;
    std::error_code failed;
    if (!std::filesystem::is_regular_file(path, failed)) {
      throw Error(where_of(config, *find_setting(config, "deepspeed_config.deepspeed_config_file")),
                  fmt::format("{} cannot be read; DeepSpeed's JSON, named from this file's folder, "
                              "would be right",
                              path.string()));
    }
    constexpr std::size_t kFileMax = 4'000'000;
    const std::string text = read_file(path.string(), "DeepSpeed's JSON", kFileMax);
    LaunchConfig inner;
    inner.source = path.string();
    read_json_settings(text, inner);
    config.settings.insert(config.settings.end(), inner.settings.begin(), inner.settings.end());
  }
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"zero_stage", "zero_optimization.stage"},
      {"gradient_accumulation_steps", "gradient_accumulation_steps"},
      {"offload_optimizer_device", "zero_optimization.offload_optimizer.device"},
      {"offload_param_device", "zero_optimization.offload_param.device"},
      {"train_micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu"}};
  for (const auto& [plugin, name] : kNames) {
    if (const LaunchSetting* setting =
            find_setting(config, fmt::format("deepspeed_config.{}", plugin));
        setting != nullptr && setting->value != "none") {
      LaunchSetting copy = *setting;
      copy.key = name;
      config.settings.push_back(std::move(copy));
    }
  }
  const std::string mixed = text_setting(config, "mixed_precision");
  if (file.empty() && (mixed == "bf16" || mixed == "fp16")) {
    config.settings.push_back({mixed + ".enabled", "true", "mixed_precision", 0});
  }
  read_deepspeed_layout(config);
  // Ulysses exchanges heads for tokens inside groups of sp ranks; ZeRO shards over all of them.
  const auto sequence_ranks =
      integer_setting(config, "parallelism_config.parallelism_config_sp_size", 1, 1'000'000);
  if (sequence_ranks.value_or(1) > 1) {
    config.layout.context = sequence_ranks;
  }
}

void read_parallelism(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const auto size = [&](const char* axis) {
    return integer_setting(
        config, fmt::format("parallelism_config.parallelism_config_{}_size", axis), 1, 1'000'000);
  };
  const auto present = [](const LaunchSetting& setting) {
    return setting.key.starts_with("parallelism_config.");
  };
  if (std::none_of(config.settings.begin(), config.settings.end(), present)) {
    return;
  }
  config.settings.push_back({"parallelism_config", "true", "parallelism_config", 0});
  const auto stages = layout.pipeline;
  read_layout_fields(config, LaunchFormat::kAccelerate);
  layout.pipeline = stages;  // of the Megatron plugin alone
  layout.context = layout.context.value_or(1) > 1 ? layout.context : size("sp");
  layout.replicas = size("dp_replicate").value_or(1);
  layout.sharded = size("dp_shard").value_or(1);
  layout.shards_in_node = false;
  layout.sequence_parallel = false;  // transformers' tensor-parallel plans keep norms whole
  if (layout.sharded == 1 && layout.context.value_or(1) == 1) {
    layout.sharding = Sharding::kNone;
    layout.sharded.reset();
  } else {
    layout.sharding = Sharding::kFull;
  }
}

void read_accelerate_types(LaunchConfig& config) {
  const std::string mixed = text_setting(config, "mixed_precision", "no");
  config.precision = kPrecisionNames.value_of(mixed) ? mixed : "fp32";
  const bool fsdp = config.layout.sharding != Sharding::kNone || config.framework == "fsdp1";
  if (config.precision != "fp32" && config.framework != "megatron" && fsdp) {
    config.choices.emplace_back("reduce_dtype=bf16");  // accelerate sets it with the parameters'
  }
  const std::string compiler = text_setting(config, "dynamo_config.dynamo_backend", "NO");
  if (in_capitals(compiler) == "INDUCTOR") {
    config.choices.emplace_back("compile=true");
  }
}

// accelerate launch starts num_processes / num_machines on each, counted from 0.
void check_machines(const LaunchConfig& config) {
  const std::int64_t machines = integer_setting(config, "num_machines", 1, 1'000'000).value_or(1);
  if (const auto rank = integer_setting(config, "machine_rank", 0, 1'000'000);
      rank && *rank >= machines) {
    throw Error(where_of(config, *find_setting(config, "machine_rank")),
                fmt::format("machine_rank is {} of num_machines {}; 0 to {} would be right", *rank,
                            machines, machines - 1));
  }
  if (config.gpus && *config.gpus % machines != 0) {
    throw Error(
        where_of(config, *find_setting(config, "num_processes")),
        fmt::format("num_processes is {}, which num_machines {} does not divide; {} or {} "
                    "would be right",
                    *config.gpus, machines, std::max(machines, *config.gpus / machines * machines),
                    (*config.gpus / machines + 1) * machines));
  }
  if (is_on(config, "use_cpu")) {
    throw Error(where_of(config, *find_setting(config, "use_cpu")),
                "use_cpu is on: it trains on CPUs, whose times are not known here; false would be "
                "right");
  }
}

void read_distributed_type(LaunchConfig& config) {
  const std::string type = text_setting(config, "distributed_type", "NO");
  if (type == "FSDP") {
    read_fsdp(config);
  } else if (type == "MEGATRON_LM") {
    read_megatron_plugin(config);
  } else if (type == "DEEPSPEED") {
    read_deepspeed_plugin(config);
    return;
  } else if (type == "MULTI_GPU" || type == "NO") {
    config.framework = "fsdp2";  // PyTorch's own stack: DDP
    config.recompute_is_open = true;
    if (type == "NO" && !config.gpus) {
      config.gpus = 1;
    }
  } else {
    throw Error(
        where_of(config, *find_setting(config, "distributed_type")),
        fmt::format("distributed_type is '{}'; FSDP, MULTI_GPU, DEEPSPEED or MEGATRON_LM would "
                    "be right",
                    type));
  }
  read_parallelism(config);
  read_accelerate_types(config);
  if (const auto times = integer_setting(config, "gradient_accumulation_steps", 1, 1'000'000);
      times && !config.layout.micro_batches) {
    config.layout.micro_batches = times;
  }
}

}  // namespace

LaunchConfig read_accelerate(std::string_view text, const std::string& source,
                             const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.format = LaunchFormat::kAccelerate;
  config.source = source;
  read_yaml_settings(text, config);
  add_arguments(arguments, "fsdp_config.fsdp_version=2", config);
  if (!has_setting(config, "distributed_type") && !has_setting(config, "num_processes")) {
    const std::string model = text_setting(config, "base_model");
    throw Error(source, model.empty() ? "has no distributed_type; accelerate's YAML would be right"
                                      : "is axolotl's; the DeepSpeed JSON or accelerate YAML that "
                                        "it starts would be right, with --model " +
                                            model);
  }
  read_accelerate_settings(config);
  return config;
}

void read_accelerate_settings(LaunchConfig& config) {
  rename_older(config);
  check_keys(config, accelerate_fields(), kAccelerateOthers, kAccelerateSections,
             kAccelerateInside);
  config.gpus = integer_setting(config, "num_processes", 1, 10'000'000);
  check_machines(config);
  read_distributed_type(config);
}

}  // namespace trireme::planner
