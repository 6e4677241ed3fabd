// Hugging Face accelerate's YAML: FSDP 1 and 2, MULTI_GPU, DEEPSPEED, MEGATRON_LM and
// parallelism_config. Defaults are utils/dataclasses.py's.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "planner/launch/deepspeed_settings.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/yaml_settings.h"

namespace trireme::planner {
namespace {

bool is_known(const std::string& key) {
  constexpr std::string_view kKnown[] = {"compute_environment",
                                         "distributed_type",
                                         "mixed_precision",
                                         "num_machines",
                                         "num_processes",
                                         "machine_rank",
                                         "main_process_ip",
                                         "main_process_port",
                                         "rdzv_backend",
                                         "same_network",
                                         "main_training_function",
                                         "use_cpu",
                                         "debug",
                                         "downcast_bf16",
                                         "gpu_ids",
                                         "enable_cpu_affinity",
                                         "gradient_accumulation_steps",
                                         "gradient_clipping",
                                         "tpu_env",
                                         "tpu_use_cluster",
                                         "tpu_use_sudo",
                                         "parallelism_config",
                                         "fsdp_config.fsdp_version",
                                         "fsdp_config.fsdp_auto_wrap_policy",
                                         "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
                                         "fsdp_config.fsdp_min_num_params",
                                         "fsdp_config.fsdp_reshard_after_forward",
                                         "fsdp_config.fsdp_sharding_strategy",
                                         "fsdp_config.fsdp_state_dict_type",
                                         "fsdp_config.fsdp_offload_params",
                                         "fsdp_config.fsdp_activation_checkpointing",
                                         "fsdp_config.fsdp_cpu_ram_efficient_loading",
                                         "fsdp_config.fsdp_backward_prefetch",
                                         "fsdp_config.fsdp_backward_prefetch_policy",
                                         "fsdp_config.fsdp_forward_prefetch",
                                         "fsdp_config.fsdp_sync_module_states",
                                         "fsdp_config.fsdp_use_orig_params"};
  constexpr std::string_view kSections[] = {"deepspeed_config.", "megatron_lm_config.",
                                            "parallelism_config.", "dynamo_config.", "fp8_config."};
  return std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown) ||
         std::any_of(std::begin(kSections), std::end(kSections),
                     [&](std::string_view section) { return key.starts_with(section); });
}

void read_fsdp(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const bool second = integer_setting(config, "fsdp_config.fsdp_version", 1, 2).value_or(1) == 2;
  config.framework = second ? "fsdp2" : "fsdp1";
  layout.sharding = Sharding::kFull;
  std::string strategy = text_setting(config, "fsdp_config.fsdp_sharding_strategy", "FULL_SHARD");
  const std::string reshard =
      text_setting(config, "fsdp_config.fsdp_reshard_after_forward", second ? "true" : "");
  if (second) {
    layout.reshard_after_forward = reshard != "false" && reshard != "False";
    strategy = "FULL_SHARD";
  } else if (reshard.find("SHARD") != std::string::npos) {
    strategy = reshard;  // what newer versions call the first version's strategy
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
  if (text_setting(config, "fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP") ==
      "NO_WRAP") {
    layout.fsdp_unit = 0;
  }
  if (is_on(config, "fsdp_config.fsdp_offload_params")) {
    config.unmodelled.emplace_back("fsdp_offload_params");
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
  layout.tensor = size("tp");
  layout.context = size("cp").value_or(1) > 1 ? size("cp") : size("sp");
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

void read_types(LaunchConfig& config) {
  const std::string mixed = text_setting(config, "mixed_precision", "no");
  config.precision = mixed == "bf16"   ? "bf16"
                     : mixed == "fp16" ? "fp16"
                     : mixed == "fp8"  ? "fp8"
                                       : "fp32";
  const bool fsdp = config.layout.sharding != Sharding::kNone || config.framework == "fsdp1";
  if (config.precision != "fp32" && config.framework != "megatron" && fsdp) {
    config.choices.emplace_back("reduce_dtype=bf16");  // accelerate sets it with the parameters'
  }
  const std::string compiler = text_setting(config, "dynamo_config.dynamo_backend", "NO");
  if (compiler == "INDUCTOR" || compiler == "inductor") {
    config.choices.emplace_back("compile=true");
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
  read_types(config);
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
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      throw Error(argument, "is no KEY=VALUE; fsdp_config.fsdp_version=2 would be right");
    }
    const std::string key = argument.substr(0, equals);
    config.settings.push_back({key, argument.substr(equals + 1), key, 0});
  }
  if (!has_setting(config, "distributed_type") && !has_setting(config, "num_processes")) {
    throw Error(
        source,
        "has neither distributed_type nor num_processes; accelerate's configuration would be "
        "right");
  }
  for (const LaunchSetting& setting : config.settings) {
    if (!is_known(setting.key)) {
      config.unknown.push_back(setting);
    }
  }
  config.gpus = integer_setting(config, "num_processes", 1, 10'000'000);
  read_distributed_type(config);
  return config;
}

}  // namespace trireme::planner
