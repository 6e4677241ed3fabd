// torchtitan of v0.2.x: TOML. Defaults are torchtitan/config/job_config.py's.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "models/model_names.h"
#include "models/presets.h"
#include "planner/launch/launch_layout.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/torchtitan.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kSchedules[] = {"1F1B",      "Interleaved1F1B", "GPipe",
                                           "LoopedBFS", "ZBVZeroBubble",   "InterleavedZeroBubble",
                                           "DualPipeV"};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Sections of which neither memory nor time depend, those whose settings are read as a whole, and
// what is read beside the fields that are written.
constexpr std::string_view kTitanSections =
    "job. metrics. profiling. lr_scheduler. checkpoint. validation. experimental. comm. debug. "
    "fault_tolerance. memory_estimation. quantize. float8.";
// What ParallelDims, meshes and the data loader take as they stand: TOML's texts, lists and 4.0
// stop them.
constexpr std::string_view kWhole =
    "data_parallel_replicate_degree data_parallel_shard_degree tensor_parallel_degree "
    "pipeline_parallel_degree context_parallel_degree expert_parallel_degree "
    "expert_tensor_parallel_degree pipeline_parallel_layers_per_stage "
    "pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers "
    "pipeline_parallel_microbatch_size pipeline_parallel_microbatches local_batch_size "
    "global_batch_size batch_size seq_len steps";
constexpr std::string_view kTitanInside =
    "quantize.linear.float8.recipe_name quantize.linear.float8.emulate "
    "quantize.linear.mx.recipe_name quantize.linear.mx.filter_fqns "
    "quantize.grouped_mm.float8.fqns quantize.grouped_mm.mx.fqns float8.recipe_name "
    "float8.filter_fqns float8.enable_fsdp_float8_all_gather debug.moe_force_load_balance";
constexpr std::string_view kTitanOthers =
    "model.tokenizer_path optimizer.early_step_in_backward training.dataset_path "
    "training.compile training.seed training.deterministic "
    "training.batch_size training.enable_fp8_linear training.warmup_steps optimizer.fused "
    "model.norm_type model.print_after_conversion training.gc_debug training.dataloader "
    "activation_checkpoint.early_stop activation_checkpoint.preserve_rng_state "
    "activation_checkpoint.determinism_check activation_checkpoint.debug "
    "parallelism.pipeline_parallel_microbatches parallelism.pipeline_parallel_schedule_csv "
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns compile.backend";

const KnownKeys& known() {
  static const KnownKeys kKnown =
      known_keys(torchtitan_fields(), kTitanOthers, kTitanSections, kTitanInside);
  return kKnown;
}

// As torchtitan spells them where it has them; a rule names the slip.
std::pair<std::string, std::string> name_and_flavor(const LaunchConfig& config) {
  const std::string name = text_setting(config, "model.name");
  const std::string flavor = text_setting(config, "model.flavor");
  const TorchtitanName right = torchtitan_name(name, flavor);
  return {right.family.empty() ? name : right.family, right.flavor.empty() ? flavor : right.flavor};
}

std::string model_of(const LaunchConfig& config) {
  if (const std::string hub = text_setting(config, "hf_transformers.model"); !hub.empty()) {
    return models::preset_in(hub);  // experiments/transformers_modeling_backend
  }
  const auto [name, flavor] = name_and_flavor(config);
  if (name.empty() || flavor.find_first_of("0123456789") == std::string::npos) {
    return {};  // "debugmodel" is none of a name's sizes
  }
  static const std::map<std::string, std::string> kFlavors = {
      {"llama3-8B", "llama-3.1-8b"},           {"llama3-70B", "llama-3.1-70b"},
      {"llama3-405B", "llama-3.1-405b"},       {"llama4-17bx16e", "llama-4-scout"},
      {"llama4-17bx128e", "llama-4-maverick"}, {"deepseek_v3-16B", "deepseek-v2-lite"},
      {"deepseek_v3-671B", "deepseek-v3"}};
  const auto found = kFlavors.find(name + "-" + flavor);
  return found != kFlavors.end() ? found->second : models::preset_in(name + "-" + flavor);
}

// module_fqns_per_model_part, an array of arrays: which modules each stage holds.
void read_module_parts(LaunchConfig& config) {
  const LaunchSetting* setting = find_setting(config, "parallelism.module_fqns_per_model_part");
  if (setting == nullptr || setting->value.empty()) {
    return;
  }
  // The reader of TOML joins inner arrays with '|'.
  LaunchLayout& layout = config.layout;
  layout.stage_layers = {0};
  std::string_view rest = setting->value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(" |"), rest.size());
    layout.stage_layers.back() += rest.substr(0, end).starts_with("layers.") ? 1 : 0;
    if (end < rest.size() && rest[end] == '|') {
      layout.stage_layers.push_back(0);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto stages = static_cast<std::int64_t>(layout.stage_layers.size());
  const std::int64_t pipeline = layout.pipeline.value_or(1);
  if (stages % pipeline == 0) {
    layout.virtual_pipeline = std::max<std::int64_t>(1, stages / pipeline);
    layout.layers_per_virtual_stage = 0;
  }
}

void read_degrees(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  read_layout_fields(config, LaunchFormat::kTorchtitan);
  layout.expert_tensor = layout.expert.value_or(1) > 1
                             ? std::optional(layout.expert_tensor.value_or(1))
                             : std::nullopt;
  layout.replicas =
      integer_setting(config, "parallelism.data_parallel_replicate_degree", 1, 1'000'000)
          .value_or(1);
  const std::int64_t shards =
      integer_setting(config, "parallelism.data_parallel_shard_degree", -1, 1'000'000).value_or(-1);
  if (shards == 0) {  // ParallelDims asserts -1 or more than 0
    throw Error(where_of(config, *find_setting(config, "parallelism.data_parallel_shard_degree")),
                "parallelism.data_parallel_shard_degree is 0; -1 (all that are left) or a number "
                "of ranks would be right");
  }
  layout.sharding = Sharding::kFull;
  if (shards > 0) {
    layout.sharded = shards;
    // Without sharding and without context ranks that share the states: replicas (DDP).
    if (shards == 1 && layout.context.value_or(1) == 1) {
      layout.sharding = Sharding::kNone;
    }
  }
  layout.sequence_parallel = true;
  const std::string reshard =
      text_setting(config, "parallelism.fsdp_reshard_after_forward", "default");
  layout.reshard_after_forward =
      reshard == "always" || (reshard == "default" && layout.pipeline.value_or(1) == 1);
}

Schedule schedule_of(LaunchConfig& config) {
  const std::string_view name = torchtitan_schedule(config);
  if (name.empty()) {  // a rule names the unknown one
    return Schedule::kOneForwardOneBackward;
  }
  if (const std::optional<Schedule> known = kTorchScheduleNames.value_of(name)) {
    return *known;
  }
  config.remarks.push_back(
      fmt::format("schedule {} is modelled as interleaved 1F1B: its bubble may be smaller", name));
  return Schedule::kInterleaved;
}

void read_titan_pipeline(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const auto count = [&](const char* key, std::int64_t otherwise, std::int64_t low) {
    return integer_setting(config, fmt::format("parallelism.{}", key), low, 1'000'000)
        .value_or(otherwise);
  };
  const std::int64_t local =
      integer_setting(config, "training.local_batch_size", 1, 1'000'000)
          .value_or(integer_setting(config, "training.batch_size", 1, 1'000'000).value_or(8));
  if (layout.pipeline.value_or(1) == 1) {
    layout.micro_batch = local;
    layout.micro_batches = 1;
    return;
  }
  // Until spring 2025 the file said how many there are, one a stage where it did not.
  const std::int64_t stages = layout.pipeline.value_or(1);
  const bool older = has_setting(config, "parallelism.pipeline_parallel_microbatches");
  const std::int64_t parts = count("pipeline_parallel_microbatches", stages, 1);
  layout.micro_batch = older ? std::max<std::int64_t>(1, local / parts)
                             : count("pipeline_parallel_microbatch_size", 1, 1);
  layout.micro_batches = older ? parts : std::max<std::int64_t>(1, local / *layout.micro_batch);
  layout.schedule = schedule_of(config);
  if (!text_setting(config, "parallelism.pipeline_parallel_schedule_csv").empty()) {
    config.foreign.emplace_back("the schedule of its pipeline_parallel_schedule_csv");
  }
  layout.first_chunk_less = count("pipeline_parallel_first_stage_less_layers", 1, 0);
  layout.last_chunk_less = count("pipeline_parallel_last_stage_less_layers", 1, 0);
  layout.spread_layers = true;
  layout.layers_per_virtual_stage = count("pipeline_parallel_layers_per_stage", 0, 1);
  if (layout.layers_per_virtual_stage == 0) {
    const bool several = layout.schedule == Schedule::kInterleaved || is_in_v(*layout.schedule);
    layout.virtual_pipeline = several ? 2 : 1;
  }
  read_module_parts(config);
}

// train.py: what is below zero is a local batch of each rank, and zero it asserts against.
void read_titan_batch(LaunchConfig& config) {
  const char* key = "training.global_batch_size";
  const std::int64_t batch = integer_setting(config, key, -1'000'000'000).value_or(-1);
  if (batch == 0) {
    refuse_setting(config, *find_setting(config, key),
                   "-1 (the local batch of every data-parallel rank) or a number of sequences");
  }
  if (batch > 0) {
    config.global_batch = batch;
  }
}

void read_titan_recompute(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const std::string mode = text_setting(config, "activation_checkpoint.mode", "selective");
  if (mode == "full") {
    layout.recompute = Recompute::kFull;
  } else if (mode == "selective") {
    const std::string option =
        text_setting(config, "activation_checkpoint.selective_ac_option", "2");
    if (option == "op") {
      layout.recompute = Recompute::kSelective;
      layout.recompute_modules = kTorchPerOp;
    } else {
      layout.recompute = Recompute::kFull;
      layout.recompute_every =
          integer_setting(config, "activation_checkpoint.selective_ac_option", 1, 100'000)
              .value_or(2);
    }
  } else if (mode == "memory_budget") {
    config.remarks.emplace_back(
        "recompute by memory budget is modelled as selective recompute of ops");
    layout.recompute = Recompute::kSelective;
    layout.recompute_modules = kTorchPerOp;
  } else if (mode != "none" && has_setting(config, "activation_checkpoint.mode")) {
    const LaunchSetting& setting = *find_setting(config, "activation_checkpoint.mode");
    throw Error(where_of(config, setting),
                fmt::format("{} is '{}'; none, selective, full or memory_budget would be right",
                            setting.spelled, mode));
  }
}

void read_titan_choices(LaunchConfig& config) {
  const bool compiled = is_on(config, "compile.enable") || is_on(config, "training.compile");
  const std::string parts = text_setting(config, "compile.components", "model loss");
  config.choices.push_back(
      fmt::format("compile={}", compiled && parts.find("model") != std::string::npos));
  // [training] compile had no parts: whether the loss was among them is its release's choice.
  if (is_on(config, "compile.enable")) {
    config.choices.push_back(
        fmt::format("cross_entropy_fusion={}", parts.find("loss") != std::string::npos));
  }
  if (is_on(config, "parallelism.disable_loss_parallel")) {
    config.choices.emplace_back("whole_logits=true");
  }
  if (is_on(config, "parallelism.enable_async_tensor_parallel")) {
    config.choices.emplace_back("tp_comm_overlap=true");
  }
  if (text_setting(config, "parallelism.context_parallel_rotate_method") == "alltoall") {
    config.choices.emplace_back("context_gather=false");
  }
  const auto half = [](const std::string& type) { return type == "bfloat16" || type == "float16"; };
  const bool half_states = half(text_setting(config, "training.dtype", "float32"));
  if (half_states) {  // parameters, gradients and both moments; only the reduction has its own type
    config.choices.emplace_back("parameter_dtype=bf16");
    config.choices.emplace_back("optimizer_dtype=bf16");
  }
  const bool half_sums = half(text_setting(config, "training.mixed_precision_reduce", "float32"));
  if (half_states || half_sums) {
    config.choices.emplace_back(half_sums ? "reduce_dtype=bf16" : "reduce_dtype=fp32");
  }
  const std::string converters = text_setting(config, "model.converters");
  // Before v0.1 a section switched it on, at first one key of [training].
  const bool fp8 = converters.find("float8") != std::string::npos ||
                   converters.find(".mx") != std::string::npos ||
                   is_on(config, "float8.enable_float8_linear") ||
                   is_on(config, "training.enable_fp8_linear");
  const bool whole =
      text_setting(config, "training.mixed_precision_param", "bfloat16") == "float32";
  config.precision = fp8 ? "fp8" : whole ? "fp32" : "bf16";
  config.unsharded_precision = half_states ? "bf16" : "fp32";
  if (is_on(config, "training.enable_cpu_offload")) {
    config.offload = {"parameters"};  // CPUOffloadPolicy
  }
}

// What is read and not modelled: of memory, so that no verdict rests on it, or of time.
void note_unmodelled_by_titan(LaunchConfig& config) {
  if (is_on(config, "optimizer.early_step_in_backward")) {
    config.unmodelled.emplace_back("optimizer.early_step_in_backward");
  }
  std::vector<std::string> idle;
  for (const auto& [key, usual] :
       {std::pair{"quantize.linear.float8.recipe_name", "tensorwise"},
        {"float8.recipe_name", "tensorwise"},
        {"quantize.linear.float8.enable_fsdp_float8_all_gather", "false"},
        {"float8.enable_fsdp_float8_all_gather", "false"},
        // layers that stay in 16 bits: the head alone is counted so (torchtitan's own default)
        {"quantize.linear.float8.filter_fqns", "output"},
        {"quantize.linear.mx.filter_fqns", "output"},
        {"float8.filter_fqns", "output"},
        {"mx.filter_fqns", "output"},
        {"optimizer.implementation", "fused"},
        {"debug.moe_force_load_balance", "false"}}) {
    if (const std::string value = text_setting(config, key, usual);
        value != usual && !value.empty()) {
      idle.push_back(fmt::format("{} = {}", key, value));
    }
  }
  if (!idle.empty()) {
    config.remarks.push_back(fmt::format("not modelled, and nothing here depends on {}: {}",
                                         idle.size() == 1 ? "it" : "them", fmt::join(idle, ", ")));
  }
}

// Degrees that older versions had in [training] and [experimental].
void move_older_names(LaunchConfig& config) {
  std::vector<LaunchSetting> moved;
  for (const LaunchSetting& setting : config.settings) {
    const std::string section = setting.key.substr(0, setting.key.find('.'));
    const std::string name = "parallelism" + setting.key.substr(section.size());
    if ((section == "training" || section == "experimental") && is_known(known(), name) &&
        !has_setting(config, name)) {
      moved.push_back({name, setting.value, setting.spelled, setting.line});
    }
  }
  std::erase_if(config.settings, [&](const LaunchSetting& setting) {
    return std::any_of(moved.begin(), moved.end(), [&](const LaunchSetting& other) {
      return other.spelled == setting.spelled;
    });
  });
  config.settings.insert(config.settings.end(), moved.begin(), moved.end());
}

}  // namespace

std::span<const std::string_view> torchtitan_schedules() {
  return kSchedules;
}

std::string_view torchtitan_schedule(const LaunchConfig& config) {
  const std::string given = text_setting(config, "parallelism.pipeline_parallel_schedule", "1F1B");
  const auto found =
      std::find_if(std::begin(kSchedules), std::end(kSchedules), [&](std::string_view name) {
        return std::equal(name.begin(), name.end(), given.begin(), given.end(),
                          [](char a, char b) { return lower(a) == lower(b); });
      });
  return found == std::end(kSchedules) ? std::string_view() : *found;
}

LaunchConfig read_torchtitan(std::string_view text, const std::string& source,
                             const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.source = source;
  read_toml_settings(text, config, kWhole);
  return read_torchtitan_settings(std::move(config), arguments);
}

LaunchConfig read_torchtitan_settings(LaunchConfig config,
                                      const std::vector<std::string>& arguments) {
  const std::string& source = config.source;
  config.format = LaunchFormat::kTorchtitan;
  config.framework = "fsdp2";
  move_older_names(config);
  add_titan_arguments(config, arguments);
  const auto foreign = [](const LaunchSetting& setting) {
    return setting.key.starts_with("model.") || setting.key.starts_with("training.") ||
           setting.key.starts_with("parallelism.");
  };
  if (std::none_of(config.settings.begin(), config.settings.end(), foreign)) {
    throw Error(source,
                "has none of torchtitan's sections [model], [training] and [parallelism]; a "
                "configuration of torchtitan v0.2.x would be right");
  }
  note_unknown(config, known());
  config.model_name = model_of(config);
  if (has_setting(config, "model.name") && has_setting(config, "model.flavor")) {
    config.model_said =
        text_setting(config, "model.name") + " " + text_setting(config, "model.flavor");
  }
  const auto [name, flavor] = name_and_flavor(config);
  const auto built = torchtitan_flavor(name, flavor);
  if (built && built->function != models::load_model(built->name).function) {
    config.model = built;  // which torchtitan builds a little otherwise than the model it is called
  }
  config.sequence = integer_setting(config, "training.seq_len", 1, 1'000'000'000).value_or(2048);
  read_titan_batch(config);
  read_degrees(config);
  read_titan_pipeline(config);
  read_titan_recompute(config);
  read_titan_choices(config);
  note_unmodelled_by_titan(config);
  return config;
}

}  // namespace trireme::planner
