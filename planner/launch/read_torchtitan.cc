// torchtitan of v0.2.x: TOML. Defaults are torchtitan/config/job_config.py's.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "models/presets.h"
#include "planner/launch/preset_name.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/toml_settings.h"
#include "planner/launch/torchtitan_flavors.h"
#include "planner/launch/torchtitan_schedules.h"

namespace trireme::planner {
namespace {

// Sections of which neither memory nor time depend.
constexpr std::string_view kHarmless[] = {
    "job",          "metrics", "profiling", "lr_scheduler",    "checkpoint",       "validation",
    "experimental", "comm",    "debug",     "fault_tolerance", "memory_estimation"};
constexpr std::string_view kKnown[] = {
    "model.name",
    "model.flavor",
    "model.hf_assets_path",
    "model.tokenizer_path",
    "model.converters",
    "optimizer.name",
    "optimizer.lr",
    "optimizer.eps",
    "optimizer.implementation",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.weight_decay",
    "optimizer.early_step_in_backward",
    "training.local_batch_size",
    "training.global_batch_size",
    "training.seq_len",
    "training.max_norm",
    "training.steps",
    "training.dataset",
    "training.dataset_path",
    "training.mixed_precision_param",
    "training.mixed_precision_reduce",
    "training.dtype",
    "training.enable_cpu_offload",
    "training.compile",
    "training.seed",
    "training.deterministic",
    "training.gc_freq",
    "training.batch_size",
    "parallelism.data_parallel_replicate_degree",
    "parallelism.data_parallel_shard_degree",
    "parallelism.fsdp_reshard_after_forward",
    "parallelism.tensor_parallel_degree",
    "parallelism.enable_async_tensor_parallel",
    "parallelism.disable_loss_parallel",
    "parallelism.pipeline_parallel_degree",
    "parallelism.pipeline_parallel_schedule",
    "parallelism.pipeline_parallel_microbatch_size",
    "parallelism.pipeline_parallel_layers_per_stage",
    "parallelism.pipeline_parallel_first_stage_less_layers",
    "parallelism.pipeline_parallel_last_stage_less_layers",
    "parallelism.context_parallel_degree",
    "parallelism.expert_parallel_degree",
    "parallelism.expert_tensor_parallel_degree",
    "parallelism.context_parallel_rotate_method",
    "parallelism.module_fqns_per_model_part",
    "activation_checkpoint.mode",
    "activation_checkpoint.selective_ac_option",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
    "compile.enable",
    "compile.components",
    "compile.backend"};

bool is_known(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  return std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown) ||
         std::find(std::begin(kHarmless), std::end(kHarmless), section) != std::end(kHarmless) ||
         key.starts_with("quantize.") || key.starts_with("float8.");
}

std::string model_of(const LaunchConfig& config) {
  const std::string name = text_setting(config, "model.name");
  const std::string flavor = text_setting(config, "model.flavor");
  if (name.empty() || flavor.empty()) {
    return {};
  }
  static const std::map<std::string, std::string> kFlavors = {
      {"llama3-8B", "llama-3.1-8b"},
      {"llama3-70B", "llama-3.1-70b"},
      {"llama3-405B", "llama-3.1-405b"},
      {"deepseek_v3-16B", "deepseek-v2-lite"},
      {"deepseek_v3-671B", "deepseek-v3"}};
  const auto found = kFlavors.find(name + "-" + flavor);
  return found != kFlavors.end() ? found->second : preset_in(name + "-" + flavor);
}

void read_degrees(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  const auto degree = [&](const char* key) {
    return integer_setting(config, fmt::format("parallelism.{}", key), 1, 1'000'000);
  };
  layout.tensor = degree("tensor_parallel_degree");
  layout.pipeline = degree("pipeline_parallel_degree");
  layout.context = degree("context_parallel_degree");
  layout.expert = degree("expert_parallel_degree");
  if (layout.expert.value_or(1) > 1) {
    layout.expert_tensor = degree("expert_tensor_parallel_degree").value_or(1);
  }
  layout.replicas = degree("data_parallel_replicate_degree").value_or(1);
  const std::int64_t shards =
      integer_setting(config, "parallelism.data_parallel_shard_degree", -1, 1'000'000).value_or(-1);
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
  if (name == "1F1B" || name.empty()) {  // a rule names the unknown one
    return Schedule::kOneForwardOneBackward;
  }
  if (name == "GPipe") {
    return Schedule::kGpipe;
  }
  if (name != "Interleaved1F1B") {
    config.remarks.push_back(fmt::format(
        "schedule {} is modelled as interleaved 1F1B: its bubble may be smaller", name));
  }
  return Schedule::kInterleaved;
}

void read_pipeline(LaunchConfig& config) {
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
  layout.micro_batch = count("pipeline_parallel_microbatch_size", 1, 1);
  layout.micro_batches = std::max<std::int64_t>(1, local / *layout.micro_batch);
  layout.schedule = schedule_of(config);
  layout.first_chunk_less = count("pipeline_parallel_first_stage_less_layers", 1, 0);
  layout.last_chunk_less = count("pipeline_parallel_last_stage_less_layers", 1, 0);
  layout.spread_layers = true;
  layout.layers_per_virtual_stage = count("pipeline_parallel_layers_per_stage", 0, 1);
  if (layout.layers_per_virtual_stage == 0) {
    layout.virtual_pipeline = layout.schedule == Schedule::kInterleaved ? 2 : 1;
  }
  read_module_parts(config);
}

void read_recompute(LaunchConfig& config) {
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

void read_choices(LaunchConfig& config) {
  const bool compiled = is_on(config, "compile.enable") || is_on(config, "training.compile");
  const std::string parts = text_setting(config, "compile.components", "model loss");
  config.choices.push_back(
      fmt::format("compile={}", compiled && parts.find("model") != std::string::npos));
  if (compiled && parts.find("loss") != std::string::npos) {
    config.choices.emplace_back("cross_entropy_fusion=true");
  }
  if (is_on(config, "parallelism.enable_async_tensor_parallel")) {
    config.choices.emplace_back("tp_comm_overlap=true");
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
  const bool fp8 =
      converters.find("float8") != std::string::npos || converters.find(".mx") != std::string::npos;
  const bool whole =
      text_setting(config, "training.mixed_precision_param", "bfloat16") == "float32";
  config.precision = fp8 ? "fp8" : whole ? "fp32" : "bf16";
  config.unsharded_precision = half_states ? "bf16" : "fp32";
  if (is_on(config, "training.enable_cpu_offload")) {
    config.unmodelled.emplace_back("training.enable_cpu_offload");
  }
}

// Degrees that older versions had in [training] and [experimental].
void move_older_names(LaunchConfig& config) {
  std::vector<LaunchSetting> moved;
  for (const LaunchSetting& setting : config.settings) {
    const std::string section = setting.key.substr(0, setting.key.find('.'));
    const std::string name = "parallelism" + setting.key.substr(section.size());
    if ((section == "training" || section == "experimental") && is_known(name) &&
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

// --section.key VALUE, --section.key=VALUE and --section.key alone.
void add_arguments(LaunchConfig& config, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string key = arguments[i];
    if (!key.starts_with("--")) {
      continue;
    }
    key.erase(0, 2);
    std::string value = "true";
    if (const auto equals = key.find('='); equals != std::string::npos) {
      value = key.substr(equals + 1);
      key.resize(equals);
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      value = arguments[++i];
    }
    config.settings.push_back({key, value, key, 0});
  }
}

}  // namespace

LaunchConfig read_torchtitan(std::string_view text, const std::string& source,
                             const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.format = LaunchFormat::kTorchtitan;
  config.source = source;
  config.framework = "fsdp2";
  read_toml_settings(text, config);
  move_older_names(config);
  add_arguments(config, arguments);
  const auto foreign = [](const LaunchSetting& setting) {
    return setting.key.starts_with("model.") || setting.key.starts_with("training.") ||
           setting.key.starts_with("parallelism.");
  };
  if (std::none_of(config.settings.begin(), config.settings.end(), foreign)) {
    throw Error(source,
                "has none of torchtitan's sections [model], [training] and [parallelism]; a "
                "configuration of torchtitan v0.2.x would be right");
  }
  for (const LaunchSetting& setting : config.settings) {
    if (!is_known(setting.key)) {
      config.unknown.push_back(setting);
    }
  }
  config.model_name = model_of(config);
  const auto built =
      torchtitan_flavor(text_setting(config, "model.name"), text_setting(config, "model.flavor"));
  if (built && built->function != models::load_model(built->name).function) {
    config.model = built;  // which torchtitan builds a little otherwise than the model it is called
  }
  config.sequence = integer_setting(config, "training.seq_len", 1, 1'000'000'000).value_or(2048);
  const std::int64_t batch = integer_setting(config, "training.global_batch_size", -1).value_or(-1);
  if (batch > 0) {
    config.global_batch = batch;
  }
  read_degrees(config);
  read_pipeline(config);
  read_recompute(config);
  read_choices(config);
  return config;
}

}  // namespace trireme::planner
