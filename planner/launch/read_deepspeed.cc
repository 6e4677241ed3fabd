// DeepSpeed's JSON as read: what its keys mean for the layout. Sources as in deepspeed.cc.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/export.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_layout.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

// Read beside the fields that are written, or known to matter for neither memory nor time.
constexpr std::string_view kDeepspeedOthers =
    "prescale_gradients wall_clock_breakdown dump_state gradient_predivide_factor "
    "zero_force_ds_cpu_optimizer disable_allgather seed "
    "zero_optimization.allgather_partitions zero_optimization.sub_group_size "
    "zero_optimization.round_robin_gradients zero_optimization.ignore_unused_parameters "
    "zero_optimization.stage3_gather_16bit_weights_on_model_save "
    "zero_optimization.stage3_gather_fp16_weights_on_model_save "
    "zero_optimization.zero_hpz_partition_size zero_optimization.cpu_offload";
constexpr std::string_view kDeepspeedSections =
    "expert_parallel. bf16. bfloat16. fp16. optimizer.params scheduler. tensorboard. wandb. "
    "csv_monitor. pipeline. comms_logger. flops_profiler. zero_optimization.offload_optimizer "
    "zero_optimization.offload_param checkpoint. aio. activation_checkpointing. amp. accelerate.";

// A slip of one of these is passed over by DeepSpeed, or refused, and would be lost here.
constexpr std::string_view kDeepspeedInside =
    "activation_checkpointing.partition_activations activation_checkpointing.cpu_checkpointing "
    "activation_checkpointing.contiguous_memory_optimization "
    "activation_checkpointing.number_checkpoints activation_checkpointing.profile "
    "activation_checkpointing.synchronize_checkpoint_boundary "
    "zero_optimization.offload_optimizer.device zero_optimization.offload_optimizer.nvme_path "
    "zero_optimization.offload_optimizer.buffer_count "
    "zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_optimizer.ratio "
    "zero_optimization.offload_optimizer.pipeline_read "
    "zero_optimization.offload_optimizer.pipeline_write "
    "zero_optimization.offload_optimizer.fast_init "
    "zero_optimization.offload_param.device zero_optimization.offload_param.nvme_path "
    "zero_optimization.offload_param.buffer_count zero_optimization.offload_param.buffer_size "
    "zero_optimization.offload_param.max_in_cpu zero_optimization.offload_param.pin_memory "
    "bf16.enabled bf16.bf16_master_weights_and_grads bf16.bf16_optimizer_states "
    "bf16.immediate_grad_update bfloat16.enabled fp16.enabled fp16.auto_cast "
    "fp16.loss_scale fp16.initial_scale_power fp16.loss_scale_window fp16.hysteresis "
    "fp16.consecutive_hysteresis fp16.min_loss_scale fp16.fp16_master_weights_and_grads";

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
  if (times) {
    config.layout.micro_batches = times;
  } else if (config.layout.micro_batch ? !whole : whole.has_value()) {
    config.layout.micro_batches = 1;  // one pass a step unless the file says otherwise
  }
}

// `ratio` is of the states (ZeRO-Offload++).
void read_zero_offload(LaunchConfig& config) {
  const auto device = [&](const char* part) {
    const std::string place =
        text_setting(config, fmt::format("zero_optimization.{}.device", part), "none");
    return place == "none" || place.empty() ? "" : place == "nvme" ? "=nvme" : "=host";
  };
  const std::string old = is_on(config, "zero_optimization.cpu_offload") ? "=host" : "";
  const std::string optimizer = old.empty() ? device("offload_optimizer") : old;
  constexpr const char* kRatio = "zero_optimization.offload_optimizer.ratio";
  const double share = number_setting(config, kRatio).value_or(1);
  if (!(share >= 0 && share <= 1)) {
    throw Error(where_of(config, *find_setting(config, kRatio)),
                fmt::format("{} is {}; a share from 0 to 1 would be right", kRatio, share));
  }
  if (!optimizer.empty()) {
    config.offload.push_back(optimizer == "=nvme" ? "optimizer=nvme"
                                                  : fmt::format("optimizer={}", share));
  }
  // runtime/activation_checkpointing/checkpointing.py: the inputs of layers that recompute
  config.offloads_checkpoints = is_on(config, "activation_checkpointing.cpu_checkpointing");
  if (config.offloads_checkpoints && config.layout.recompute == Recompute::kNone) {
    config.remarks.emplace_back(
        "activation_checkpointing.cpu_checkpointing holds for layers that recompute by "
        "deepspeed.checkpointing, which the program decides: none is assumed (--recompute full)");
  }
  if (const std::string parameters = device("offload_param"); !parameters.empty()) {
    config.offload.push_back(parameters == "=nvme" ? "parameters=nvme" : "parameters");
  }
  for (const char* part : {"offload_optimizer", "offload_param"}) {
    const std::string key = fmt::format("zero_optimization.{}.pin_memory", part);
    if (*device(part) != 0 && !switch_setting(config, key).value_or(true)) {
      config.choices.emplace_back("offload_pinned=false");
      break;
    }
  }
}

void read_zero_sharding(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const std::int64_t stage = integer_setting(config, "zero_optimization.stage", 0, 3).value_or(0);
  constexpr Sharding kStages[] = {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients,
                                  Sharding::kFull};
  layout.sharding = kStages[stage];
  // Zero leaves tensor parallelism out.
  std::erase_if(config.settings, [](const LaunchSetting& setting) {
    return setting.key == "tensor_parallel.autotp_size" && setting.value == "0";
  });
  read_layout_fields(config, LaunchFormat::kDeepspeed);
  if (!is_on(config, "expert_parallel.enabled")) {
    layout.expert.reset();
  }
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
  if (const auto size =
          integer_setting(config, "zero_optimization.sub_group_size", 1, 1'000'000'000'000'000)) {
    config.choices.push_back(fmt::format("sub_group_elements={}", *size));
  }
  if (integer_setting(config, "zero_optimization.zero_hpz_partition_size").value_or(1) > 1) {
    config.remarks.emplace_back(
        "the second copy of parameters inside a node (zero_hpz_partition_size) is not modelled");
  }
  read_zero_offload(config);
}

// Buffers and orders whose numbers are taken as DeepSpeed's own (runtime/zero/config.py), and
// switches that nothing here depends on.
void note_idle(LaunchConfig& config) {
  constexpr std::pair<const char*, double> kUsual[] = {{"stage3_prefetch_bucket_size", 5e7},
                                                       {"stage3_param_persistence_threshold", 1e5},
                                                       {"stage3_max_reuse_distance", 1e9},
                                                       {"allgather_bucket_size", 5e8}};
  std::vector<std::string> usual_ones;
  for (const auto& [name, usual] : kUsual) {
    const LaunchSetting* setting = find_setting(config, fmt::format("zero_optimization.{}", name));
    if (setting != nullptr && number_setting(config, setting->key).value_or(usual) < 0) {
      refuse_setting(config, *setting, fmt::format("a number of elements ({:g})", usual));
    }
    if (setting != nullptr && number_setting(config, setting->key).value_or(usual) != usual) {
      usual_ones.push_back(fmt::format("{} {:g} (not {})", name, usual, setting->value));
    }
  }
  if (!usual_ones.empty()) {
    config.remarks.push_back(
        fmt::format("taken as DeepSpeed's own: {}", fmt::join(usual_ones, ", ")));
  }
  std::vector<std::string> idle;
  if (is_on(config, "zero_optimization.offload_optimizer.super_offload")) {
    idle.emplace_back("super_offload");
  }
  if (!switch_setting(config, "zero_optimization.contiguous_gradients").value_or(true)) {
    idle.emplace_back("contiguous_gradients false");
  }
  if (!idle.empty()) {
    config.remarks.push_back(fmt::format("not modelled, and nothing here depends on {}: {}",
                                         idle.size() == 1 ? "it" : "them", fmt::join(idle, ", ")));
  }
}

void read_deepspeed_types(LaunchConfig& config) {
  const bool bf16 = is_on(config, "bf16.enabled") || is_on(config, "bfloat16.enabled");
  config.precision = bf16 ? "bf16" : is_on(config, "fp16.enabled") ? "fp16" : "fp32";
  const std::string type = text_setting(config, "communication_data_type");
  if (type == "fp32" || type == "fp16" || type == "bf16" || type == "bfp16") {
    config.choices.push_back(fmt::format("reduce_dtype={}", type == "bfp16" ? "bf16" : type));
  }
  const std::string sums = text_setting(config, "data_types.grad_accum_dtype");
  // Without a type of their own sums have the model's, of bf16 without a stage fp32
  // (runtime/engine.py get_data_types).
  const bool stage = number_setting(config, "zero_optimization.stage").value_or(0) > 0;
  const bool of_model_type = sums.empty() && config.precision != "fp32" && (stage || !bf16);
  if (sums.find("16") == std::string::npos && sums != "half" && !of_model_type) {
    config.choices.emplace_back("gradient_bytes=4");
  }
  // runtime/config.py: the optimizer's copy and the sums, and both moments
  if (bf16 && is_on(config, "bf16.bf16_master_weights_and_grads")) {
    config.choices.emplace_back("master_bytes=2");
    config.choices.emplace_back("gradient_bytes=2");
  }
  if (bf16 && is_on(config, "bf16.bf16_optimizer_states")) {
    config.choices.emplace_back("optimizer_dtype=bf16");
  }
  const std::string optimizer = text_setting(config, "optimizer.type", "AdamW");
  const std::string plain = in_capitals(optimizer);
  config.optimizer = plain == "SGD" ? "sgd" : "adam";
  if (plain.find("ADAM") == std::string::npos && plain != "SGD") {
    config.remarks.push_back(fmt::format("optimizer {} is modelled as adam", optimizer));
  }
}

}  // namespace

void read_deepspeed_layout(LaunchConfig& config) {
  config.framework = "deepspeed";
  drop_automatic(config);
  read_zero_sharding(config);
  read_batch(config);
  read_deepspeed_types(config);
  note_idle(config);
  config.recompute_is_open = config.layout.recompute == Recompute::kNone;
}

LaunchConfig read_deepspeed(std::string_view text, const std::string& source,
                            const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.format = LaunchFormat::kDeepspeed;
  config.source = source;
  read_json_settings(text, config);
  read_deepspeed_settings(arguments, config);
  return config;
}

void read_deepspeed_settings(const std::vector<std::string>& arguments, LaunchConfig& config) {
  add_arguments(arguments, "zero_optimization.stage=2", config);
  check_keys(config, deepspeed_fields(), kDeepspeedOthers, kDeepspeedSections, kDeepspeedInside);
  if (config.unknown.size() == config.settings.size()) {
    throw Error(config.source,
                "has none of DeepSpeed's keys (train_batch_size, zero_optimization, …); "
                "DeepSpeed's configuration would be right");
  }
  read_deepspeed_layout(config);
}

}  // namespace trireme::planner
