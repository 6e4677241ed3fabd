// DeepSpeed's JSON. Defaults are runtime/config.py's and runtime/zero/config.py's.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/deepspeed_settings.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

// Whether a key is one that is read, or of which neither memory nor time depend.
bool is_known(const std::string& key) {
  constexpr std::string_view kKnown[] = {
      "train_batch_size",
      "train_micro_batch_size_per_gpu",
      "gradient_accumulation_steps",
      "gradient_clipping",
      "communication_data_type",
      "prescale_gradients",
      "steps_per_print",
      "wall_clock_breakdown",
      "dump_state",
      "gradient_predivide_factor",
      "zero_allow_untested_optimizer",
      "zero_force_ds_cpu_optimizer",
      "sequence_parallel_size",
      "disable_allgather",
      "seed",
      "data_types.grad_accum_dtype",
      "tensor_parallel.autotp_size",
      "optimizer.type",
      "zero_optimization.stage",
      "zero_optimization.overlap_comm",
      "zero_optimization.contiguous_gradients",
      "zero_optimization.reduce_bucket_size",
      "zero_optimization.allgather_bucket_size",
      "zero_optimization.allgather_partitions",
      "zero_optimization.reduce_scatter",
      "zero_optimization.sub_group_size",
      "zero_optimization.round_robin_gradients",
      "zero_optimization.stage3_prefetch_bucket_size",
      "zero_optimization.ignore_unused_parameters",
      "zero_optimization.stage3_param_persistence_threshold",
      "zero_optimization.stage3_max_live_parameters",
      "zero_optimization.stage3_max_reuse_distance",
      "zero_optimization.stage3_gather_16bit_weights_on_model_save",
      "zero_optimization.stage3_gather_fp16_weights_on_model_save",
      "zero_optimization.zero_hpz_partition_size",
      "zero_optimization.mics_shard_size",
      "zero_optimization.mics_hierarchical_params_gather",
      "zero_optimization.cpu_offload"};
  constexpr std::string_view kSections[] = {"expert_parallel.",
                                            "bf16.",
                                            "bfloat16.",
                                            "fp16.",
                                            "optimizer.params",
                                            "scheduler.",
                                            "tensorboard.",
                                            "wandb.",
                                            "csv_monitor.",
                                            "pipeline.",
                                            "comms_logger.",
                                            "flops_profiler.",
                                            "zero_optimization.offload_optimizer",
                                            "zero_optimization.offload_param",
                                            "checkpoint.",
                                            "aio.",
                                            "activation_checkpointing.",
                                            "amp.",
                                            "accelerate."};
  return std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown) ||
         std::any_of(std::begin(kSections), std::end(kSections),
                     [&](std::string_view section) { return key.starts_with(section); });
}

// "auto" is filled by the Trainer: as if it were missing.
void drop_automatic(LaunchConfig& config) {
  std::vector<std::string> names;
  bool bf16 = false;
  bool fp16 = false;
  std::erase_if(config.settings, [&](const LaunchSetting& setting) {
    if (setting.value != "auto") {
      return false;
    }
    names.push_back(setting.spelled);
    bf16 |= setting.key == "bf16.enabled" || setting.key == "bfloat16.enabled";
    fp16 |= setting.key == "fp16.enabled";
    return true;
  });
  if (bf16 || fp16) {  // the Trainer's --bf16 where both are open
    const char* key = bf16 ? "bf16.enabled" : "fp16.enabled";
    const bool decided = is_on(config, "bf16.enabled") || is_on(config, "fp16.enabled");
    if (!decided) {
      config.settings.push_back({key, "true", key, 0});
    }
  }
  if (!names.empty()) {
    config.remarks.push_back(fmt::format(
        "{} value{} \"auto\" count as missing: {}", names.size(), names.size() == 1 ? "" : "s",
        fmt::join(
            names.begin(),
            names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 6)),
            ", ")));
  }
}

void read_batch(LaunchConfig& config) {
  const auto count = [&](const char* key) { return integer_setting(config, key, 1, 100'000'000); };
  const auto whole = count("train_batch_size");
  const auto times = count("gradient_accumulation_steps");
  // DeepSpeed counts the tensor ranks' sequences, which are the same ones, each time.
  const std::int64_t tensor = std::max<std::int64_t>(
      1, integer_setting(config, "tensor_parallel.autotp_size", 0, 100'000).value_or(1));
  config.global_batch =
      whole ? std::optional(std::max<std::int64_t>(1, *whole / tensor)) : std::nullopt;
  config.accumulation = times;
  config.layout.micro_batch =
      integer_setting(config, "train_micro_batch_size_per_gpu", 1, 1'000'000);
  if (times) {
    config.layout.micro_batches = times;
  } else if (config.layout.micro_batch ? !whole : whole.has_value()) {
    config.layout.micro_batches = 1;  // one pass a step unless the file says otherwise
  }
}

void read_sharding(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const std::int64_t stage = integer_setting(config, "zero_optimization.stage", 0, 3).value_or(0);
  constexpr Sharding kStages[] = {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients,
                                  Sharding::kFull};
  layout.sharding = kStages[stage];
  layout.tensor = integer_setting(config, "tensor_parallel.autotp_size", 0, 100'000);
  if (layout.tensor == 0) {
    layout.tensor = 1;
  }
  layout.context = integer_setting(config, "sequence_parallel_size", 1, 100'000);
  if (is_on(config, "expert_parallel.enabled")) {
    layout.expert = integer_setting(config, "expert_parallel.autoep_size", 1, 1'000'000);
  }
  layout.pipeline = integer_setting(config, "pipeline.stages", 1, 100'000);
  if (integer_setting(config, "pipeline.activation_checkpoint_interval", 0, 100'000).value_or(0) >
      0) {
    layout.recompute = Recompute::kFull;
  }
  const auto group = integer_setting(config, "zero_optimization.mics_shard_size", -1, 1'000'000);
  if (group && *group > 0 && stage == 3) {
    layout.sharded = group;
  } else {
    layout.replicas =
        layout.sharding == Sharding::kNone ? std::nullopt : std::optional<std::int64_t>(1);
  }
  const bool overlaps =
      switch_setting(config, "zero_optimization.overlap_comm").value_or(stage == 3);
  config.choices.push_back(fmt::format("overlap_grad_reduce={}", overlaps));
  if (const auto size =
          integer_setting(config, "zero_optimization.reduce_bucket_size", 1, 1'000'000'000'000)) {
    config.choices.push_back(fmt::format("bucket_elements={}", *size));
  }
  if (const auto size = integer_setting(config, "zero_optimization.stage3_max_live_parameters", 0,
                                        1'000'000'000'000)) {
    config.choices.push_back(fmt::format("prefetch_elements={}", *size));
  }
  if (integer_setting(config, "zero_optimization.zero_hpz_partition_size").value_or(1) > 1) {
    config.remarks.emplace_back(
        "the second copy of parameters inside a node (zero_hpz_partition_size) is not modelled");
  }
  for (const char* part : {"offload_optimizer", "offload_param"}) {
    const std::string device =
        text_setting(config, fmt::format("zero_optimization.{}.device", part), "none");
    if (device != "none" && !device.empty()) {
      config.unmodelled.push_back(fmt::format("zero_optimization.{} to {}", part, device));
    }
  }
}

void read_types(LaunchConfig& config) {
  const bool bf16 = is_on(config, "bf16.enabled") || is_on(config, "bfloat16.enabled");
  config.precision = bf16 ? "bf16" : is_on(config, "fp16.enabled") ? "fp16" : "fp32";
  const std::string type = text_setting(config, "communication_data_type");
  if (type == "fp32" || type == "fp16" || type == "bf16" || type == "bfp16") {
    config.choices.push_back(fmt::format("reduce_dtype={}", type == "bfp16" ? "bf16" : type));
  }
  const std::string sums = text_setting(config, "data_types.grad_accum_dtype");
  if (sums == "bf16" || sums == "fp16" || sums == "bfp16") {
    config.choices.emplace_back("gradient_bytes=2");
  }
  const std::string optimizer = text_setting(config, "optimizer.type", "AdamW");
  config.optimizer = optimizer == "SGD" ? "sgd" : "adam";
  if (optimizer.find("Adam") == std::string::npos && optimizer != "SGD") {
    config.remarks.push_back(fmt::format("optimizer {} is modelled as adam", optimizer));
  }
}

}  // namespace

void read_deepspeed_layout(LaunchConfig& config) {
  config.framework = "deepspeed";
  drop_automatic(config);
  read_batch(config);
  read_sharding(config);
  read_types(config);
  config.recompute_is_open = config.layout.recompute == Recompute::kNone;
}

LaunchConfig read_deepspeed(std::string_view text, const std::string& source,
                            const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.format = LaunchFormat::kDeepspeed;
  config.source = source;
  read_json_settings(text, config);
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      throw Error(argument, "is no KEY=VALUE; zero_optimization.stage=2 would be right");
    }
    const std::string key = argument.substr(0, equals);
    config.settings.push_back({key, argument.substr(equals + 1), key, 0});
  }
  for (const LaunchSetting& setting : config.settings) {
    if (!is_known(setting.key)) {
      config.unknown.push_back(setting);
    }
  }
  if (config.unknown.size() == config.settings.size()) {
    throw Error(source,
                "has none of DeepSpeed's keys (train_batch_size, zero_optimization, …); "
                "DeepSpeed's configuration would be right");
  }
  read_deepspeed_layout(config);
  return config;
}

}  // namespace trireme::planner
