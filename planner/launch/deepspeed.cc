// DeepSpeed's JSON: its fields as a table, read and written. Sources: DeepSpeed edaa7221,
// runtime/config.py and runtime/zero/config.py (defaults), docs/_pages/config-json.md.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/export.h"
#include "planner/launch/field_table.h"
#include "planner/launch/key_checks.h"
#include "planner/launch/launch_layout.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

using L = LaunchPlan;

FieldValue type_name(const L& l, double bytes) {
  return bytes == 4 ? "fp32" : l.job.precision == topologies::Precision::kFp16 ? "fp16" : "bf16";
}

bool is_mixed(const L& l) {
  return l.job.precision != topologies::Precision::kFp32;
}

bool is_fp16(const L& l) {
  return l.job.precision == topologies::Precision::kFp16;
}

// Without a stage the engine refuses fp32 sums beside 16-bit parameters (runtime/engine.py); over
// one data-parallel rank stage 1 shards nothing.
int stage_of(const L& l) {
  const bool alone = l.plan.sharding == Sharding::kNone && l.plan.data_parallel() == 1;
  return alone && is_mixed(l) ? 1 : static_cast<int>(l.plan.sharding);
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

bool trains(const L& l) {
  return l.form == LaunchForm::kTraining;
}

bool shards_in_groups(const L& l) {
  return is_third_stage(l) && l.plan.replicas > 1;
}

bool offloads_optimizer(const L& l) {
  return l.job.offload.optimizer != OffloadTo::kNone;
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
      {"zero_optimization.stage3_max_reuse_distance", given(is_third_stage, 1'000'000'000)},
      {"zero_optimization.offload_optimizer.device", given(offloads_optimizer, "cpu")},
      {"zero_optimization.offload_optimizer.pin_memory", given(offloads_optimizer, true)},
      {"zero_optimization.offload_optimizer.ratio",
       given([](const L& l) { return offloads_optimizer(l) && l.job.offload.optimizer_share < 1; },
             [](const L& l) { return l.job.offload.optimizer_share; })},
      {"zero_optimization.offload_param.device", given(offloads_parameters, "cpu")},
      {"zero_optimization.offload_param.pin_memory", given(offloads_parameters, true)},
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

// Read beside the fields that are written, or known to matter for neither memory nor time.
constexpr std::string_view kOthers =
    "prescale_gradients wall_clock_breakdown dump_state gradient_predivide_factor "
    "zero_force_ds_cpu_optimizer disable_allgather seed "
    "zero_optimization.allgather_partitions zero_optimization.sub_group_size "
    "zero_optimization.round_robin_gradients zero_optimization.ignore_unused_parameters "
    "zero_optimization.stage3_gather_16bit_weights_on_model_save "
    "zero_optimization.stage3_gather_fp16_weights_on_model_save "
    "zero_optimization.zero_hpz_partition_size zero_optimization.cpu_offload";
constexpr std::string_view kSections =
    "expert_parallel. bf16. bfloat16. fp16. optimizer.params scheduler. tensorboard. wandb. "
    "csv_monitor. pipeline. comms_logger. flops_profiler. zero_optimization.offload_optimizer "
    "zero_optimization.offload_param checkpoint. aio. activation_checkpointing. amp. accelerate.";

// A slip of one of these is passed over by DeepSpeed, or refused, and would be lost here.
constexpr std::string_view kInside =
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
void read_offload(LaunchConfig& config) {
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
}

void read_sharding(LaunchConfig& config) {
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
  if (integer_setting(config, "zero_optimization.zero_hpz_partition_size").value_or(1) > 1) {
    config.remarks.emplace_back(
        "the second copy of parameters inside a node (zero_hpz_partition_size) is not modelled");
  }
  read_offload(config);
}

// Buffers and orders whose numbers are taken as DeepSpeed's own (runtime/zero/config.py).
void note_idle(LaunchConfig& config) {
  constexpr std::pair<const char*, double> kUsual[] = {{"stage3_prefetch_bucket_size", 5e7},
                                                       {"stage3_param_persistence_threshold", 1e5},
                                                       {"stage3_max_reuse_distance", 1e9},
                                                       {"sub_group_size", 1e9},
                                                       {"allgather_bucket_size", 5e8}};
  std::vector<std::string> idle;
  for (const auto& [name, usual] : kUsual) {
    const LaunchSetting* setting = find_setting(config, fmt::format("zero_optimization.{}", name));
    if (setting != nullptr && number_setting(config, setting->key).value_or(usual) != usual) {
      idle.push_back(fmt::format("{} {}", name, setting->value));
    }
  }
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

void read_types(LaunchConfig& config) {
  const bool bf16 = is_on(config, "bf16.enabled") || is_on(config, "bfloat16.enabled");
  config.precision = bf16 ? "bf16" : is_on(config, "fp16.enabled") ? "fp16" : "fp32";
  const std::string type = text_setting(config, "communication_data_type");
  if (type == "fp32" || type == "fp16" || type == "bf16" || type == "bfp16") {
    config.choices.push_back(fmt::format("reduce_dtype={}", type == "bfp16" ? "bf16" : type));
  }
  const std::string sums = text_setting(config, "data_types.grad_accum_dtype");
  // Without a type of their own sums have the model's (runtime/engine.py get_data_types).
  const bool model_type = sums.empty() && config.precision != "fp32" &&
                          number_setting(config, "zero_optimization.stage").value_or(0) > 0;
  if (sums.find("16") != std::string::npos || sums == "half" || model_type) {
    config.choices.emplace_back("gradient_bytes=2");
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
  read_sharding(config);
  read_batch(config);
  read_types(config);
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
  check_keys(config, deepspeed_fields(), kOthers, kSections, kInside);
  if (config.unknown.size() == config.settings.size()) {
    throw Error(config.source,
                "has none of DeepSpeed's keys (train_batch_size, zero_optimization, …); "
                "DeepSpeed's configuration would be right");
  }
  read_deepspeed_layout(config);
}

LaunchFile write_deepspeed(const LaunchPlan& launch) {
  refuse_plans_unknown_to_deepspeed(launch);
  LaunchFile file;
  file.command = command_of(launch);
  file.text = json_text(deepspeed_fields(), launch);
  file.remarks = remarks_of(launch, file.command);
  return file;
}

}  // namespace trireme::planner
