// Runs of transformers' Trainer that name a DeepSpeed file: LLaMA-Factory's and axolotl's YAML, and
// command lines of programs around the Trainer. The file's values "auto" are the run's, as the
// Trainer fills them (transformers, integrations/deepspeed.py, HfTrainerDeepSpeedConfig).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/known_models.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

// One thing under the names that programs have for it, the first that is there.
constexpr std::string_view kModel = "model_name_or_path base_model model";
constexpr std::string_view kSequence =
    "cutoff_len sequence_len model_max_length max_seq_length max_length max_seq_len block_size";
constexpr std::string_view kMicroBatch = "per_device_train_batch_size micro_batch_size";
constexpr std::string_view kRank = "lora_rank lora_r";

const LaunchSetting* first_of(const LaunchConfig& run, std::string_view names) {
  for (const std::string_view name : names_in(names)) {
    if (const LaunchSetting* found = find_setting(run, name); found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

std::optional<std::int64_t> count_of(const LaunchConfig& run, std::string_view names) {
  const LaunchSetting* found = first_of(run, names);
  return found == nullptr ? std::nullopt : integer_setting(run, found->key, 1, 1'000'000'000);
}

bool is_trainer_flag(std::string_view word) {
  std::string key(word.substr(std::min<std::size_t>(2, word.size())));
  std::replace(key.begin(), key.end(), '-', '_');
  key.resize(std::min(key.find('='), key.size()));
  return word.starts_with("--") &&
         (is_among(kModel, key) || is_among(kSequence, key) || is_among(kMicroBatch, key) ||
          is_among("deepspeed bf16 fp16 output_dir learning_rate gradient_accumulation_steps "
                   "gradient_checkpointing num_train_epochs save_steps logging_steps",
                   key));
}

// What the run says, as settings of its own names; its GPUs where it starts them.
LaunchConfig run_of(std::string_view text, const std::string& source,
                    const LaunchReading& reading) {
  LaunchConfig run;
  run.source = source;
  if (source.ends_with(".yaml") || source.ends_with(".yml")) {
    read_yaml_settings(text, run);
    return run;
  }
  const ShellScript script = read_launch_script(text, source, {}, reading, run);
  const LaunchCommand command = training_command(script, is_trainer_flag, run);
  remark_missing_arguments(
      script, [](std::string_view) { return false; }, run);
  read_gpu_count(command.launcher, run);
  run.settings = flags_of(command.arguments);
  return run;
}

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

void fill_automatic(const LaunchConfig& run, LaunchConfig& config) {
  const LaunchSetting* micro = first_of(run, kMicroBatch);
  const LaunchSetting* times = find_setting(run, "gradient_accumulation_steps");
  fill(config, "train_micro_batch_size_per_gpu", micro, micro == nullptr ? "" : micro->value);
  fill(config, "gradient_accumulation_steps", times, times == nullptr ? "" : times->value);
  for (const char* type : {"bf16", "fp16"}) {
    // axolotl's own `bf16: auto` is bf16 where the card has it
    const LaunchSetting* setting = find_setting(run, type);
    const bool on = setting != nullptr && (setting->value == "auto" || is_on(run, type));
    fill(config, fmt::format("{}.enabled", type), setting, on ? "true" : "false");
  }
}

void read_adapters(const LaunchConfig& run, LaunchConfig& config) {
  const std::string kind =
      text_setting(run, "finetuning_type", text_setting(run, "adapter", "full"));
  if (kind == "lora" || kind == "qlora" || is_on(run, "use_lora") || is_on(run, "use_peft")) {
    config.lora_rank = count_of(run, kRank).value_or(8);
  }
}

// What trains otherwise than the weights or adapters of one model, in their own bits, whole on each
// rank but for the JSON's shards. The table says with which values it does not.
void note_other_training(const LaunchConfig& run, LaunchConfig& config) {
  constexpr std::pair<const char*, std::string_view> kOfOneModel[] = {
      {"stage", "pt sft"},
      {"rl", "none None null"},
      {"finetuning_type", "full lora"},
      {"adapter", "lora none None null"},
      {"quantization_bit", "none None null"},
      {"load_in_4bit", "false False no off 0"},
      {"load_in_8bit", "false False no off 0"},
      {"tensor_parallel_size", "1"},
      {"context_parallel_size", "1"},
      {"sequence_parallel_degree", "1"}};
  for (const auto& [key, values] : kOfOneModel) {
    const LaunchSetting* setting = find_setting(run, key);
    if (setting != nullptr && !setting->value.empty() && !is_among(values, setting->value)) {
      config.foreign.push_back(fmt::format("{} {}", setting->spelled, setting->value));
    }
  }
}

// LLaMA-Factory recomputes unless told; the Trainer where told.
void read_recompute(const LaunchConfig& run, LaunchConfig& config) {
  const bool factory = has_setting(run, "finetuning_type");
  const bool recomputes = factory ? !is_on(run, "disable_gradient_checkpointing")
                                  : is_on(run, "gradient_checkpointing");
  config.layout.recompute = recomputes ? Recompute::kFull : config.layout.recompute;
  config.recompute_is_open = false;
}

void read_run(const LaunchConfig& run, LaunchConfig& config) {
  config.gpus = run.gpus;
  config.gpus_per_node = run.gpus_per_node;
  config.sequence = count_of(run, kSequence);
  if (const LaunchSetting* model = first_of(run, kModel); model != nullptr) {
    config.model_name = preset_in(model->value);
    config.model_said = model->value;
  }
  const std::string optimizer =
      text_setting(run, "optim", text_setting(run, "optimizer", "adamw_torch"));
  if (!has_setting(config, "optimizer.type") && optimizer.find("8bit") != std::string::npos) {
    config.optimizer = "adam8bit";
  }
  read_adapters(run, config);
  note_other_training(run, config);
  read_recompute(run, config);
  config.environment = run.environment;
  config.undecided = run.undecided;
  config.remarks.insert(config.remarks.begin(), run.remarks.begin(), run.remarks.end());
}

bool is_trainer_run(std::string_view text, const std::string& source) {
  const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
  if (source.ends_with(".yaml") || source.ends_with(".yml")) {
    return has("deepspeed:") &&
           (has("finetuning_type:") || (has("base_model:") && has("sequence_len:")));
  }
  return has("--deepspeed") && has("--per_device_train_batch_size") && has(".json");
}

}  // namespace

std::optional<LaunchConfig> read_trainer(std::string_view text, const std::string& source,
                                         const std::vector<std::string>& arguments,
                                         const LaunchReading& reading) {
  if (!is_trainer_run(text, source)) {
    return {};
  }
  const LaunchConfig run = run_of(text, source, reading);
  const LaunchSetting* file = find_setting(run, "deepspeed");
  if (file == nullptr || !file->value.ends_with(".json")) {
    return {};
  }
  const auto json = reading.read ? reading.read(file->value) : std::nullopt;
  if (!json) {
    const char* who = has_setting(run, "finetuning_type") ? "LLaMA-Factory"
                      : has_setting(run, "base_model")    ? "axolotl"
                                                          : "the Trainer";
    throw Error(where_of(run, *file),
                fmt::format("{} of {}'s run cannot be read below the file's folder or in its "
                            "repository; DeepSpeed's JSON where it is named, or that JSON itself "
                            "with --model, --seq and --micro-batch, would be right",
                            file->value, who));
  }
  LaunchConfig config;
  config.format = LaunchFormat::kDeepspeed;
  config.source = file->value;
  read_json_settings(*json, config);
  fill_automatic(run, config);
  read_deepspeed_settings(arguments, config);
  read_run(run, config);
  return config;
}

}  // namespace trireme::planner
