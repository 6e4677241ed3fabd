// Runs of transformers' Trainer: who shards what. A DeepSpeed file's values "auto" are the run's,
// as the Trainer fills them (transformers, integrations/deepspeed.py, HfTrainerDeepSpeedConfig);
// FSDP's words are those of TrainingArguments; without either every GPU holds all (DDP).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/trainer.h"

namespace trireme::planner {
namespace {

// ---- DeepSpeed

// The Trainer's value for a key of the file that is missing or "auto".
void fill(LaunchConfig& config, std::string_view key, const LaunchSetting* from,
          const std::string& value) {
  const LaunchSetting* found = find_setting(config, key);
  if (from == nullptr || (found != nullptr && found->value != "auto")) {
    return;
  }
  std::erase_if(config.settings, [&](const LaunchSetting& each) { return each.key == key; });
  config.settings.push_back({std::string(key), value, from->spelled, 0});
}

void fill_automatic(const TrainerRun& run, LaunchConfig& config) {
  const LaunchSetting* micro =
      run_setting(run.said, "per_device_train_batch_size micro_batch_size");
  const LaunchSetting* times = run_setting(run.said, "gradient_accumulation_steps");
  fill(config, "train_micro_batch_size_per_gpu", micro, micro == nullptr ? "" : micro->value);
  fill(config, "gradient_accumulation_steps", times, times == nullptr ? "" : times->value);
  const std::string precision = precision_of_trainer(run);
  const LaunchSetting said{"", "", "the run's precision", 0};
  for (const char* type : {"bf16", "fp16"}) {
    fill(config, fmt::format("{}.enabled", type), precision.empty() ? nullptr : &said,
         precision == type ? "true" : "false");
  }
}

// ms-swift's names for files of its own (swift/config/zero*.json): stage and place alone differ.
std::string named_deepspeed_file(std::string_view name) {
  constexpr std::string_view kNames = "zero0 zero1 zero2 zero3 zero2_offload zero3_offload";
  if (!is_among(kNames, name)) {
    return {};
  }
  const char* place = name.ends_with("_offload") ? "cpu" : "none";
  return fmt::format(
      R"({{"bf16": {{"enabled": "auto"}}, "fp16": {{"enabled": "auto"}},
          "gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto",
          "zero_optimization": {{"stage": {}, "overlap_comm": false,
          "offload_optimizer": {{"device": "{}"}}, "offload_param": {{"device": "{}"}}}}}})",
      name[4], place, name[4] == '3' ? place : "none");
}

std::string deepspeed_file(const TrainerRun& run, const LaunchSetting& file,
                           const LaunchReading& reading) {
  if (std::string own = named_deepspeed_file(file.value); !own.empty()) {
    return own;
  }
  const auto json = reading.read ? reading.read(file.value) : std::nullopt;
  if (json) {
    return *json;
  }
  const char* who = run.program == TrainerProgram::kFactory   ? "LLaMA-Factory"
                    : run.program == TrainerProgram::kAxolotl ? "axolotl"
                    : run.program == TrainerProgram::kSwift   ? "ms-swift"
                                                              : "the Trainer";
  throw Error(where_of(run.said, file),
              fmt::format("{} of {}'s run cannot be read below the file's folder or in its "
                          "repository; DeepSpeed's JSON where it is named, or that JSON itself "
                          "with --model, --seq and --micro-batch, would be right",
                          file.value, who));
}

LaunchConfig under_deepspeed(const TrainerRun& run, const LaunchSetting& file,
                             const LaunchReading& reading,
                             const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.format = LaunchFormat::kDeepspeed;
  const std::string text = deepspeed_file(run, file, reading);
  config.source = file.value.ends_with(".json") ? file.value : run.said.source;
  read_json_settings(text, config);
  fill_automatic(run, config);
  read_deepspeed_settings(arguments, config);
  return config;
}

// ---- accelerate: FSDP, or nothing sharded

void set(LaunchConfig& config, std::string key, std::string value, const LaunchSetting* from) {
  config.settings.push_back({std::move(key), std::move(value), from == nullptr ? "" : from->spelled,
                             from == nullptr ? 0 : from->line});
}

// "full_shard auto_wrap offload" of TrainingArguments.fsdp, as accelerate's keys.
void add_fsdp_words(const LaunchSetting& words, LaunchConfig& config) {
  std::string text = words.value;
  std::replace(text.begin(), text.end(), ',', ' ');
  for (const std::string_view word : names_in(text)) {
    if (word == "auto_wrap") {
      set(config, "fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", &words);
    } else if (word == "offload") {
      set(config, "fsdp_config.fsdp_offload_params", "true", &words);
    } else {
      set(config, "fsdp_config.fsdp_sharding_strategy", in_capitals(std::string(word)), &words);
    }
  }
}

// Keys of the run's own fsdp_config, of the file that it names, and ms-swift's fsdp2
// (swift/config/fsdp2.json).
void add_fsdp(const TrainerRun& run, const LaunchReading& reading, LaunchConfig& config) {
  const LaunchSetting* words = run_setting(run.said, "fsdp");
  set(config, "distributed_type", "FSDP", words);
  if (words != nullptr && words->value == "fsdp2") {
    for (const auto& [key, value] : {std::pair{"version", "2"},
                                     {"auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
                                     {"reshard_after_forward", "true"},
                                     {"activation_checkpointing", "true"}}) {
      set(config, fmt::format("fsdp_config.fsdp_{}", key), value, words);
    }
  } else if (words != nullptr && !is_among("true True", words->value)) {
    add_fsdp_words(*words, config);
  }
  if (const LaunchSetting* version = run_setting(run.said, "fsdp_version")) {
    set(config, "fsdp_config.fsdp_version", version->value, version);
  }
  LaunchConfig file;
  const LaunchSetting* named = run_setting(run.said, "fsdp_config");
  const auto text = named != nullptr && reading.read ? reading.read(named->value) : std::nullopt;
  if (text) {
    file.source = named->value;
    read_json_settings(*text, file);
    for (LaunchSetting& setting : file.settings) {
      setting.key.insert(0, "fsdp_config.");
      config.settings.push_back(std::move(setting));
    }
  }
  for (const LaunchSetting& setting : run.said.settings) {
    if (setting.key.starts_with("fsdp_config.")) {
      config.settings.push_back(setting);
    }
  }
}

// The file of accelerate launch, where the command names one.
bool add_accelerate_file(const TrainerRun& run, const LaunchReading& reading,
                         LaunchConfig& config) {
  if (run.accelerate.empty()) {
    return false;
  }
  const auto text = reading.read ? reading.read(run.accelerate) : std::nullopt;
  if (!text) {
    throw Error(run.said.source,
                fmt::format("{}, after --config_file, cannot be read below the file's folder or in "
                            "its repository; accelerate's YAML where it is named would be right",
                            run.accelerate));
  }
  read_yaml_settings(*text, config);
  return true;
}

LaunchConfig under_accelerate(const TrainerRun& run, const LaunchReading& reading) {
  LaunchConfig config;
  config.format = LaunchFormat::kAccelerate;
  config.source = run.said.source;
  const std::string fsdp = run_text(run.said, "fsdp");
  const auto is_fsdp_key = [](const LaunchSetting& setting) {
    return setting.key.starts_with("fsdp_config.");
  };
  const bool shards = (!fsdp.empty() && !is_among("false False", fsdp)) ||
                      std::any_of(run.said.settings.begin(), run.said.settings.end(), is_fsdp_key);
  if (add_accelerate_file(run, reading, config)) {
    // its distributed_type holds
  } else if (shards) {
    add_fsdp(run, reading, config);
  } else {
    set(config, "distributed_type", "MULTI_GPU", nullptr);
    if (run.said.gpus.value_or(2) > 1) {
      config.remarks.emplace_back(
          "it names neither DeepSpeed nor FSDP: every GPU holds all of it (DDP)");
    }
  }
  if (const std::string precision = precision_of_trainer(run); !precision.empty()) {
    set(config, "mixed_precision", precision, nullptr);
  }
  read_accelerate_settings(config);
  return config;
}

}  // namespace

std::optional<LaunchConfig> read_trainer(std::string_view text, const std::string& source,
                                         const std::vector<std::string>& arguments,
                                         const LaunchReading& reading) {
  std::optional<TrainerRun> run = read_trainer_run(text, source, reading);
  if (!run) {
    return {};
  }
  const LaunchSetting* file = run_setting(run->said, "deepspeed");
  const bool named = file != nullptr && !is_among("none false False", file->value);
  if (!named) {
    add_arguments(arguments, "cutoff_len=4096", run->said);
  }
  LaunchConfig config =
      named ? under_deepspeed(*run, *file, reading, arguments) : under_accelerate(*run, reading);
  read_training(*run, config);
  return config;
}

}  // namespace trireme::planner
