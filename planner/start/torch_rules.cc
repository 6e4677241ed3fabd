// What DeepSpeed's configuration and accelerate ask.
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/field_table.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {

// torchtitan and accelerate refuse keys that they do not have; DeepSpeed refuses those of its
// sections and passes over the others (pydantic's extra="forbid", config_utils.py).
std::optional<Finding> keys_known(const LaunchConfig& config, const LaunchCase&) {
  const bool own_config = has_setting(config, "job.custom_config_module") ||
                          has_setting(config, "experimental.custom_args_module");
  bool ignores = config.format == LaunchFormat::kDeepspeed;
  std::vector<std::string> refused;
  std::vector<std::string> right;
  for (const LaunchSetting& setting : config.unknown) {
    const std::string section = setting.key.substr(0, setting.key.rfind('.') + 1);
    // Beside the right one it is refused where keys are held to a list.
    const bool refuses = config.format == LaunchFormat::kAccelerate ||
                         (config.format == LaunchFormat::kDeepspeed && !section.empty());
    const bool beside = has_setting(config, setting.meant) && !refuses;
    if (setting.meant.empty() || beside || own_config) {
      continue;
    }
    const bool read_loosely = section == "activation_checkpointing.";  // as a plain dictionary
    ignores = ignores && (section.empty() || read_loosely || !setting.meant.starts_with(section));
    refused.push_back(fmt::format("{} ({})", setting.spelled, place_of(config, setting)));
    right.push_back(setting.meant);
  }
  if (refused.empty()) {
    return {};
  }
  return Finding{fmt::format("{} {} no key of {}, which {} it", fmt::join(refused, ", "),
                             refused.size() == 1 ? "is" : "are", to_string(config.format),
                             ignores ? "passes over" : "refuses"),
                 fmt::format("use {}", fmt::join(right, ", "))};
}

namespace {

using Found = std::optional<Finding>;

Found deepspeed_batch(const LaunchConfig& config, const LaunchCase& found) {
  const auto whole = integer_setting(config, "train_batch_size");
  const auto micro = integer_setting(config, "train_micro_batch_size_per_gpu");
  const auto times = integer_setting(config, "gradient_accumulation_steps");
  // It is checked before the tensor ranks are known (runtime/config.py): they count too.
  const std::int64_t data = found.plan.data_parallel() * found.plan.tensor;
  if (!whole || !micro || !times || *whole == *micro * *times * data) {
    return {};
  }
  return Finding{
      fmt::format(
          "train_batch_size {} is not micro-batch {} x accumulation {} x data parallel {}{} = {}",
          *whole, *micro, *times, found.plan.data_parallel(),
          found.plan.tensor > 1 ? fmt::format(" x tp {}", found.plan.tensor) : "",
          *micro * *times * data),
      fmt::format("use train_batch_size {}, or leave one of the three out",
                  *micro * *times * data)};
}

// runtime/engine.py: only the optimizers of a stage keep sums of another type than the parameters'.
Found sums_without_stage(const LaunchConfig& config, const LaunchCase&) {
  const bool half = is_on(config, "bf16.enabled") || is_on(config, "bfloat16.enabled") ||
                    is_on(config, "fp16.enabled");
  if (!half || text_setting(config, "data_types.grad_accum_dtype") != "fp32" ||
      integer_setting(config, "zero_optimization.stage", 0, 3).value_or(0) > 0) {
    return {};
  }
  return Finding{
      "gradients are summed in fp32 beside 16-bit parameters without a ZeRO stage, which "
      "the engine refuses",
      "use zero_optimization.stage 1, or leave data_types.grad_accum_dtype out"};
}

bool has_stage(const LaunchConfig& config) {
  return integer_setting(config, "zero_optimization.stage", 0, 3).value_or(0) > 0;
}

// runtime/engine.py, _configure_basic_optimizer: they compress what ZeRO would have shared out.
Found one_bit_optimizer(const LaunchConfig& config, const LaunchCase&) {
  const std::string type = text_setting(config, "optimizer.type");
  if (!has_stage(config) || !is_among("ONEBITADAM ZEROONEADAM ONEBITLAMB", in_capitals(type))) {
    return {};
  }
  return Finding{fmt::format("optimizer {} with ZeRO stage {}, which the engine refuses", type,
                             static_cast<int>(config.layout.sharding)),
                 "use zero_optimization.stage 0, or optimizer.type AdamW"};
}

// runtime/zero/utils.py, ZERO_SUPPORTED_OPTIMIZERS; names of one's own are not known here.
Found tested_optimizer(const LaunchConfig& config, const LaunchCase&) {
  constexpr std::string_view kUntested =
      "LAMB SGD MUSGD ADADELTA ADAFACTOR ADAMAX SPARSEADAM ASGD LBFGS NADAM RADAM RMSPROP RPROP";
  const std::string type = text_setting(config, "optimizer.type");
  if (!has_stage(config) || is_on(config, "zero_allow_untested_optimizer") ||
      !is_among(kUntested, in_capitals(type))) {
    return {};
  }
  return Finding{fmt::format("optimizer {} is none of those that ZeRO is tested with, and the "
                             "engine refuses it",
                             type),
                 "set zero_allow_untested_optimizer to true"};
}

// The bf16 optimizer, which runs without a stage, asks the sequence-parallel groups for a tensor
// rank that they do not have (DeepSpeed#7833).
Found ulysses_stage(const LaunchConfig& config, const LaunchCase& found) {
  const bool bf16 = is_on(config, "bf16.enabled") || is_on(config, "bfloat16.enabled");
  if (config.framework != "deepspeed" || found.plan.context == 1 || !bf16 || has_stage(config)) {
    return {};
  }
  return Finding{
      fmt::format("sequence parallelism of {} ranks in bf16 without a ZeRO stage: the first step "
                  "of the optimizer stops",
                  found.plan.context),
      "use zero_optimization.stage 1, 2 or 3"};
}

Found parameter_offload(const LaunchConfig& config, const LaunchCase&) {
  const std::string device = text_setting(config, "zero_optimization.offload_param.device");
  if (device.empty() || device == "none" || config.layout.sharding == Sharding::kFull) {
    return {};
  }
  return Finding{fmt::format("offload_param to {} with ZeRO stage {}", device,
                             static_cast<int>(config.layout.sharding)),
                 "use zero_optimization.stage 3, or leave offload_param out"};
}

Found optimizer_offload(const LaunchConfig& config, const LaunchCase&) {
  const std::string device = text_setting(config, "zero_optimization.offload_optimizer.device");
  if (device.empty() || device == "none" || config.layout.sharding != Sharding::kNone) {
    return {};
  }
  return Finding{fmt::format("offload_optimizer to {} without ZeRO", device),
                 "use zero_optimization.stage 1, 2 or 3"};
}

// OffloadDeviceEnum of DeepSpeed's offload_config.py.
Found offload_device(const LaunchConfig& config, const LaunchCase&) {
  for (const char* key :
       {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"}) {
    const std::string device = text_setting(config, key, "none");
    if (!is_among("none cpu nvme auto", device)) {
      return Finding{fmt::format("{} is '{}'", key, device), "use cpu, nvme or none"};
    }
  }
  return {};
}

Found one_type(const LaunchConfig& config, const LaunchCase&) {
  if (!is_on(config, "bf16.enabled") || !is_on(config, "fp16.enabled")) {
    return {};
  }
  return Finding{"bf16 and fp16 are both enabled", "set fp16.enabled to false"};
}

Found mics_divides(const LaunchConfig& config, const LaunchCase& found) {
  const auto group = integer_setting(config, "zero_optimization.mics_shard_size", -1);
  if (!group || *group <= 0) {
    return {};
  }
  const std::int64_t data =
      found.world / std::max<std::int64_t>(1, found.plan.tensor * found.plan.context);
  if (data % *group == 0) {
    return {};
  }
  return Finding{
      fmt::format("data parallel {} is not divisible by mics_shard_size {}", data, *group),
      fmt::format("use a divisor of {}", data)};
}

// accelerate's YAML takes these rules too, and has a row of its own.
Found deepspeed_keys(const LaunchConfig& config, const LaunchCase& found) {
  return config.format == LaunchFormat::kDeepspeed ? keys_known(config, found) : Found();
}

// transformers up to 4.57 runs the experts of a layer one after the other, and ZeRO-3 hooks and
// gathers each; which release runs no launch file says, so that it is predicted where asked for.
Found experts_in_a_loop(const LaunchConfig& config, const LaunchCase& found) {
  const bool gathers = found.plan.sharding == Sharding::kFull;
  const bool own_layers = config.format == LaunchFormat::kAccelerate &&
                          found.job.framework.host_counts != "transformers";
  if (own_layers || !found.job.model.moe || found.plan.expert > 1 ||
      config.framework == "megatron" || found.job.framework.experts_in_loop) {
    return {};
  }
  return Finding{
      fmt::format(
          "transformers up to 4.57 runs {}'s {} experts in a loop{}: the step can take many "
          "times what is predicted here, which is that of grouped products (--set "
          "experts_in_loop=true is of the loop)",
          found.job.model.name, found.job.model.moe->experts,
          gathers ? ", and gathers the parameters of each" : ""),
      "use transformers 5 or a model with grouped experts, and name the expert block as a leaf "
      "(set_z3_leaf_modules) under ZeRO-3"};
}

Found deepspeed_values(const LaunchConfig& config, const LaunchCase& found) {
  return config.format == LaunchFormat::kDeepspeed ? values_known(config, found) : Found();
}

constexpr LaunchRule kDeepspeedRules[] = {
    {"keys that DeepSpeed has", Severity::kError, {}, deepspeed_keys},
    {"values that DeepSpeed takes", Severity::kError, {}, deepspeed_values},
    {"experts in transformers' loop", Severity::kWarning, {}, experts_in_a_loop},
    {"train_batch = micro * accumulation * dp", Severity::kError, Rule::kBatchDivides,
     deepspeed_batch},
    {"fp32 sums need a ZeRO stage", Severity::kError, {}, sums_without_stage},
    {"1-bit optimizers without ZeRO", Severity::kError, {}, one_bit_optimizer},
    {"optimizers that ZeRO is tested with", Severity::kError, {}, tested_optimizer},
    {"Ulysses needs a ZeRO stage", Severity::kError, {}, ulysses_stage},
    {"offload_param needs stage 3", Severity::kError, {}, parameter_offload},
    {"offload_optimizer needs ZeRO", Severity::kError, {}, optimizer_offload},
    {"offload devices that DeepSpeed has", Severity::kError, {}, offload_device},
    {"bf16 or fp16", Severity::kError, {}, one_type},
    {"dp % mics_shard_size", Severity::kError, Rule::kGpuProduct, mics_divides},
};

std::int64_t fsdp_version(const LaunchConfig& config) {
  return integer_setting(config, "fsdp_config.fsdp_version").value_or(1);
}

Found needs_version_two(const LaunchConfig& config, const LaunchCase&) {
  const bool parallel = has_setting(config, "parallelism_config");
  const std::int64_t version = fsdp_version(config);
  if (!parallel || version == 2 || text_setting(config, "distributed_type") != "FSDP") {
    return {};
  }
  return Finding{fmt::format("parallelism_config with fsdp_version {}", version),
                 "use fsdp_version: 2"};
}

std::int64_t size_of(const LaunchConfig& config, const char* axis) {
  return integer_setting(config, fmt::format("parallelism_config.parallelism_config_{}_size", axis))
      .value_or(1);
}

Found one_sequence_axis(const LaunchConfig& config, const LaunchCase&) {
  if (size_of(config, "cp") == 1 || size_of(config, "sp") == 1) {
    return {};
  }
  return Finding{fmt::format("cp {} and sp {} exclude each other", size_of(config, "cp"),
                             size_of(config, "sp")),
                 "use parallelism_config_sp_size: 1"};
}

Found replicas_need_shards(const LaunchConfig& config, const LaunchCase&) {
  if (size_of(config, "dp_replicate") == 1 || size_of(config, "dp_shard") > 1 ||
      (size_of(config, "tp") == 1 && size_of(config, "cp") == 1)) {
    return {};
  }
  return Finding{
      fmt::format("dp_replicate {} with tp {} and cp {} needs dp_shard > 1",
                  size_of(config, "dp_replicate"), size_of(config, "tp"), size_of(config, "cp")),
      fmt::format(
          "use parallelism_config_dp_shard_size: {} and parallelism_config_dp_replicate_size: 1",
          size_of(config, "dp_replicate"))};
}

// str_to_bool takes the words of YAML in any case.
Found reshard_is_switch(const LaunchConfig& config, const LaunchCase&) {
  const std::string value =
      in_capitals(text_setting(config, "fsdp_config.fsdp_reshard_after_forward"));
  if (fsdp_version(config) != 2 || value.empty() ||
      is_among("TRUE FALSE YES NO ON OFF Y N T F 1 0", value)) {
    return {};
  }
  return Finding{fmt::format("fsdp_reshard_after_forward is '{}' with fsdp_version 2", value),
                 "use true or false"};
}

// torch.distributed.fsdp.ShardingStrategy, by name in any case or by number; version 2 reads none.
Found strategy_known(const LaunchConfig& config, const LaunchCase&) {
  constexpr std::string_view kStrategies =
      "FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD HYBRID_SHARD_ZERO2 1 2 3 4 5";
  const std::string value = text_setting(config, "fsdp_config.fsdp_sharding_strategy");
  if (value.empty() || fsdp_version(config) != 1 || is_among(kStrategies, in_capitals(value))) {
    return {};
  }
  return Finding{fmt::format("fsdp_sharding_strategy is '{}'", value),
                 "use FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2"};
}

// The launcher always sets the first version's strategy, FULL_SHARD where the file has none, and
// the plugin prefers it (utils/launch.py, utils/dataclasses.py, accelerator.py).
Found strategy_without_effect(const LaunchConfig& config, const LaunchCase&) {
  const std::string value = text_setting(config, "fsdp_config.fsdp_reshard_after_forward");
  if (fsdp_version(config) != 1 || value.empty() || in_capitals(value) == "FULL_SHARD" ||
      has_setting(config, "fsdp_config.fsdp_sharding_strategy")) {
    return {};
  }
  return Finding{fmt::format("fsdp_reshard_after_forward is '{}' with fsdp_version 1, whose "
                             "strategy accelerate reads elsewhere: it shards as FULL_SHARD",
                             value),
                 "write fsdp_sharding_strategy, or use fsdp_version: 2"};
}

// What utils/constants.py lists and FullyShardedDataParallelPlugin raises on, in any case.
Found plugin_values(const LaunchConfig& config, const LaunchCase&) {
  constexpr std::pair<const char*, std::string_view> kValues[] = {
      {"fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP SIZE_BASED_WRAP NO_WRAP"},
      {"fsdp_backward_prefetch", "BACKWARD_PRE BACKWARD_POST NO_PREFETCH 1 2"},
      {"fsdp_state_dict_type", "FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT 1 2 3"}};
  for (const auto& [key, values] : kValues) {
    const std::string value = text_setting(config, std::string("fsdp_config.") + key);
    if (!value.empty() && !is_among(values, in_capitals(value))) {
      return Finding{fmt::format("{} is '{}'", key, value),
                     fmt::format("use one of {}", fmt::join(names_in(values), ", "))};
    }
  }
  return {};
}

// utils/launch.py; both switches are on unless the file says otherwise.
Found loads_and_syncs(const LaunchConfig& config, const LaunchCase&) {
  const char* loads = "fsdp_config.fsdp_cpu_ram_efficient_loading";
  if (text_setting(config, "distributed_type") != "FSDP" ||
      !switch_setting(config, loads).value_or(true) ||
      switch_setting(config, "fsdp_config.fsdp_sync_module_states").value_or(true)) {
    return {};
  }
  return Finding{"fsdp_cpu_ram_efficient_loading without fsdp_sync_module_states",
                 "set fsdp_sync_module_states: true, or fsdp_cpu_ram_efficient_loading: false"};
}

Found shards_for_fsdp(const LaunchConfig& config, const LaunchCase&) {
  const std::int64_t version = fsdp_version(config);
  if (!has_setting(config, "parallelism_config") || version != 2 ||
      text_setting(config, "distributed_type") != "FSDP" || size_of(config, "dp_shard") > 1 ||
      size_of(config, "cp") > 1) {
    return {};
  }
  return Finding{fmt::format("FSDP with dp_shard 1 and cp 1 (tp {}) has nothing to shard",
                             size_of(config, "tp")),
                 "use distributed_type: MULTI_GPU without fsdp_config, or "
                 "parallelism_config_dp_shard_size: 2 or more"};
}

constexpr LaunchRule kAccelerateRules[] = {
    {"keys that accelerate has", Severity::kError, {}, keys_known},
    {"values that accelerate takes", Severity::kError, {}, values_known},
    {"values that FSDP's plugin takes", Severity::kError, {}, plugin_values},
    {"efficient loading needs synchronised states", Severity::kError, {}, loads_and_syncs},
    {"FSDP needs shards", Severity::kError, {}, shards_for_fsdp},
    {"parallelism_config needs FSDP version 2", Severity::kError, {}, needs_version_two},
    {"cp or sp", Severity::kError, {}, one_sequence_axis},
    {"dp_replicate with tp or cp needs dp_shard", Severity::kError, {}, replicas_need_shards},
    {"reshard_after_forward is a switch", Severity::kError, {}, reshard_is_switch},
    {"reshard_after_forward of FSDP version 1", Severity::kWarning, {}, strategy_without_effect},
    {"sharding strategies that FSDP has", Severity::kError, {}, strategy_known},
};

}  // namespace

std::span<const LaunchRule> deepspeed_rules() {
  return kDeepspeedRules;
}
std::span<const LaunchRule> accelerate_rules() {
  return kAccelerateRules;
}

}  // namespace trireme::planner
