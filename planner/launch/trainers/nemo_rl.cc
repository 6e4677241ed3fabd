// NeMo RL: the policy that its YAML trains, by DTensor (PyTorch's FSDP2, tensor parallelism) or by
// Megatron-Core. A YAML inherits from those after `defaults`. Sources: NeMo RL of August 2026
// (nemo_rl/utils/config.py, nemo_rl/models/dtensor/parallelize.py,
// nemo_rl/models/automodel/setup.py, nemo_rl/models/megatron/setup.py, examples/configs).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/trainers/rollouts.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

std::string in_policy(std::string_view key) {
  return fmt::format("policy.{}", key);
}

// ---- the settings

// The YAML and, before it, those that it inherits from; `path`: from the first one's folder.
void read_inherited(std::string_view text, const std::string& path, const LaunchReading& reading,
                    int depth, LaunchConfig& said) {
  constexpr int kDeepest = 10;
  LaunchConfig own;
  own.source = depth == 0 ? said.source : path;
  read_yaml_settings(text, own);
  const std::string bases = run_text(own, "defaults");
  for (const std::string_view base : names_in(bases)) {
    const std::string file =
        (std::filesystem::path(path).parent_path() / base).lexically_normal().string();
    const auto inner = reading.read && depth < kDeepest ? reading.read(file) : std::nullopt;
    if (inner) {
      read_inherited(*inner, file, reading, depth + 1, said);
    } else {
      said.foreign.push_back(fmt::format("what {} sets, from which it inherits", base));
    }
  }
  for (LaunchSetting& setting : own.settings) {
    setting.line = depth == 0 ? setting.line : 0;
    said.settings.push_back(std::move(setting));
  }
}

LaunchConfig settings_of(std::string_view text, const std::string& source,
                         const std::vector<std::string>& arguments, const LaunchReading& reading) {
  LaunchConfig said;
  said.source = source;
  said.format = LaunchFormat::kAccelerate;
  read_inherited(text, std::filesystem::path(source).filename().string(), reading, 0, said);
  add_arguments(arguments, "policy.train_micro_batch_size=2", said);
  settle_references(said);
  return said;
}

bool on(const LaunchConfig& said, const std::string& key, bool otherwise = false) {
  return switch_setting(said, key).value_or(otherwise);
}

// ---- the GPUs that train (grpo.py, setup): without those of rollouts of their own

void read_training_gpus(const LaunchConfig& said, LaunchConfig& config) {
  const std::string rollouts = in_policy("generation.colocated.");
  const bool apart = !on(said, rollouts + "enabled", true);
  std::int64_t each = run_count(said, "cluster.gpus_per_node", 8);
  std::int64_t hosts = run_count(said, "cluster.num_nodes", 1);
  if (apart && hosts == 1) {
    each =
        std::max<std::int64_t>(1, each - run_count(said, rollouts + "resources.gpus_per_node", 1));
  } else if (apart) {
    hosts = std::max<std::int64_t>(1, hosts - run_count(said, rollouts + "resources.num_nodes", 1));
  }
  config.gpus_per_node = each;
  config.gpus = each * hosts;
  if (said.settings.end() != std::find_if(said.settings.begin(), said.settings.end(),
                                          [](const LaunchSetting& setting) {
                                            return setting.key.starts_with("policy.generation.");
                                          }) &&
      !apart) {
    config.remarks.emplace_back(
        "the rollout engine sleeps while the policy trains: what it keeps on the GPU then is not "
        "counted");
  }
}

// ---- DTensor

void read_dtensor(const LaunchConfig& said, LaunchConfig& config) {
  const std::string owner = in_policy("dtensor_cfg.");
  LaunchLayout& layout = config.layout;
  config.format = LaunchFormat::kAccelerate;
  config.framework = "fsdp2";
  layout.sharding = Sharding::kFull;
  layout.reshard_after_forward = true;
  layout.tensor = run_count(said, owner + "tensor_parallel_size", 1);
  layout.context = run_count(said, owner + "context_parallel_size", 1);
  layout.replicas = run_count(said, owner + "dp_replicate_size", 1);
  layout.sequence_parallel = on(said, owner + "sequence_parallel");
  if (run_count(said, owner + "expert_parallel_size", 1) > 1) {
    config.foreign.emplace_back("expert parallelism of DTensor");
  }
  config.choices.emplace_back("reduce_dtype=fp32");
  if (on(said, owner + "activation_checkpointing")) {
    layout.recompute = Recompute::kFull;
    note_beside(config, "what attention, MLP and norms keep, which recompute one by one");
  }
  if (on(said, owner + "cpu_offload")) {
    config.offload = {"parameters"};
  }
  if (on(said, owner + "lora_cfg.enabled")) {
    config.training.rank = run_count(said, owner + "lora_cfg.dim", 8);
    config.training.base = BaseFormat::kFp32;
  }
  const std::string type = run_text(said, in_policy("precision"), "bfloat16");
  config.precision = type == "float32" ? "fp32" : type == "float16" ? "fp16" : "bf16";
}

// ---- Megatron-Core

void read_megatron_cfg(const LaunchConfig& said, LaunchConfig& config) {
  const std::string owner = in_policy("megatron_cfg.");
  constexpr std::string_view kSections[] = {"optimizer.", "distributed_data_parallel_config.",
                                            "fp8_cfg.", "model_overrides.", ""};
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"use_custom_fsdp", "use_megatron_fsdp"},
      {"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
      {"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"}};
  config.format = LaunchFormat::kMegatron;
  config.program = MegatronProgram::kVerl;
  const bool narrow = on(said, owner + "fp8_cfg.enabled");
  const bool shards = on(said, owner + "distributed_data_parallel_config.use_custom_fsdp");
  for (const LaunchSetting& setting : said.settings) {
    if (!setting.key.starts_with(owner)) {
      continue;
    }
    std::string_view path = std::string_view(setting.key).substr(owner.size());
    const auto* section =
        std::find_if(std::begin(kSections), std::end(kSections),
                     [&](std::string_view each) { return path.starts_with(each); });
    const bool quantized = *section == "fp8_cfg.";
    path.remove_prefix(section->size());
    if (path.find('.') != std::string_view::npos || (quantized && !narrow) ||
        is_among("enabled activation_checkpointing recompute_granularity recompute_modules",
                 path) ||
        (path == "data_parallel_sharding_strategy" && !shards)) {
      continue;
    }
    LaunchSetting own = setting;
    own.key = path;
    for (const auto& [from, to] : kNames) {
      own.key = own.key == from ? std::string(to) : own.key;
    }
    config.settings.push_back(std::move(own));
  }
  const auto put = [&](const char* key, const std::string& value) {
    put_setting(config, key, value, nullptr);
  };
  put("attention_dropout", "0");
  put("hidden_dropout", "0");
  if (on(said, owner + "activation_checkpointing")) {
    const std::string depth = run_text(said, owner + "recompute_granularity", "full");
    put("recompute_granularity", depth);
    if (depth == "full") {
      put("recompute_method", "uniform");
      put("recompute_num_layers", "1");
    } else if (const std::string parts = run_text(said, owner + "recompute_modules");
               !parts.empty()) {
      put("recompute_modules", parts);
    }
  }
  if (!switch_setting(config, "grad_reduce_in_fp32").value_or(true)) {
    put("grad_reduce_in_bf16", "true");
  }
  config.environment.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "1", "NeMo RL's workers"});
  if (on(said, owner + "peft.enabled")) {
    config.training.rank = run_count(said, owner + "peft.dim", 8);
    config.training.base = BaseFormat::kSixteenBit;
  }
  read_megatron_layout(config);
}

// ---- batch and kind

void read_step(const LaunchConfig& said, LaunchConfig& config) {
  const std::int64_t longest = run_count(said, in_policy("max_total_sequence_length"), 4096);
  // Nothing where a file that it inherits from, and that cannot be read, says it.
  const auto samples = run_count(said, in_policy("train_global_batch_size"));
  const std::int64_t micro = run_count(said, in_policy("train_micro_batch_size"), 1);
  config.sequence = longest;
  config.global_batch = samples;
  config.layout.micro_batch = micro;
  for (const char* way : {"sequence_packing", "dynamic_batching"}) {
    const std::string owner = in_policy(way) + ".";
    if (!on(said, owner + "enabled")) {
      continue;
    }
    const std::int64_t pack = run_count(said, owner + "train_mb_tokens", longest * micro);
    const RolloutPacks packs = packs_of({.step = samples,
                                         .longest = longest,
                                         .ranks = data_ranks(config),
                                         .by = way,
                                         .limit = "train_mb_tokens"},
                                        pack, config);
    config.sequence = packs.sequence;
    config.layout.micro_batch = 1;
    config.global_batch = packs.batch;
    return;
  }
  note_unpacked(config);
}

void read_kind(const LaunchConfig& said, LaunchConfig& config) {
  const auto has = [&](std::string_view section) {
    return std::any_of(
        said.settings.begin(), said.settings.end(),
        [&](const LaunchSetting& setting) { return setting.key.starts_with(section); });
  };
  if (has("rm.")) {
    config.foreign.emplace_back("a head of one score in place of the vocabulary's");
  } else if (has("distillation.")) {
    config.foreign.emplace_back("distillation");
  } else if (has("dpo.")) {  // pairs; the judging weights are swapped in from the host
    config.sequences_a_sample = 2;
  } else if (has("ppo.")) {
    note_beside(config, "the critic");
  }
  if (has("grpo.") || has("ppo.")) {
    const double samples =
        static_cast<double>(run_count(said, "grpo.num_prompts_per_step", 1)) *
        static_cast<double>(run_count(said, "grpo.num_generations_per_prompt", 1));
    const auto batch = run_count(said, in_policy("train_global_batch_size"));
    note_actor(config, batch ? samples / static_cast<double>(*batch) : 1);
  }
}

}  // namespace

bool is_nemo_rl(std::string_view text, const std::string& source) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  const auto section = [&](const std::string& name) {
    return text.starts_with(name) || has("\n" + name);
  };
  const bool engines =
      has("dtensor_cfg:") || has("megatron_cfg:") || has("train_global_batch_size:");
  const std::size_t at = std::min(text.find("defaults:"), text.size());
  const bool names_file =
      text.substr(at, text.find('\n', at) - at).find(".yaml") != std::string_view::npos;
  const bool inherits =
      section("defaults:") && (names_file || section("cluster:") || section("policy:") ||
                               section("grpo:") || section("checkpointing:"));
  return is_yaml(source) && ((section("policy:") && engines) || inherits);
}

LaunchConfig read_nemo_rl(std::string_view text, const std::string& source,
                          const std::vector<std::string>& arguments, const LaunchReading& reading) {
  const LaunchConfig said = settings_of(text, source, arguments, reading);
  LaunchConfig config = said;
  config.settings.clear();
  read_training_gpus(said, config);
  if (const LaunchSetting* model = run_setting(said, in_policy("model_name"))) {
    take_model(model->value, config);
  } else if (!config.foreign.empty()) {
    throw Error(source, fmt::format("says no policy.model_name, and {} cannot be read; that file "
                                    "beside it would be right",
                                    config.foreign.front()));
  }
  if (on(said, in_policy("megatron_cfg.enabled"))) {
    read_megatron_cfg(said, config);
  } else {
    read_dtensor(said, config);
  }
  read_step(said, config);
  read_kind(said, config);
  put_program("nemo-rl", config);
  return config;
}

}  // namespace trireme::planner
