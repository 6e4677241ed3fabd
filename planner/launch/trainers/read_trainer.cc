// Runs of transformers' Trainer: who shards what. A DeepSpeed file's values "auto" are the run's,
// as the Trainer fills them (transformers, integrations/deepspeed.py, HfTrainerDeepSpeedConfig);
// FSDP's words are those of TrainingArguments; without either every GPU holds all (DDP).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/trainers/trainer.h"

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

// DeepSpeed files that come with a program: ms-swift's by its names for them (swift/config/*.json),
// LLaMA-Factory's and axolotl's by the paths that runs have (examples/deepspeed,
// deepspeed_configs).
struct StockFile {
  std::string_view name;
  int stage;
  const char* optimizer;
  const char* parameters;
  bool overlaps;
};
constexpr StockFile kStockFiles[] = {
    {"zero0", 0, "none", "none", false},
    {"zero1", 1, "none", "none", false},
    {"zero2", 2, "none", "none", false},
    {"zero3", 3, "none", "none", false},
    {"zero2_offload", 2, "cpu", "none", false},
    {"zero3_offload", 3, "cpu", "cpu", false},
    {"ds_z0_config.json", 0, "none", "none", false},
    {"ds_z2_config.json", 2, "none", "none", false},
    {"ds_z2_offload_config.json", 2, "cpu", "none", false},
    {"ds_z3_config.json", 3, "none", "none", false},
    {"ds_z3_offload_config.json", 3, "cpu", "cpu", false},
    {"deepspeed_configs/zero1.json", 1, "none", "none", true},
    {"deepspeed_configs/zero2.json", 2, "cpu", "none", true},
    {"deepspeed_configs/zero3.json", 3, "none", "none", true},
    {"deepspeed_configs/zero3_bf16.json", 3, "none", "none", true},
    {"deepspeed_configs/zero3_bf16_cpuoffload_all.json", 3, "cpu", "cpu", true},
    {"deepspeed_configs/zero3_bf16_cpuoffload_params.json", 3, "none", "cpu", true},
};

std::string stock_deepspeed_file(std::string_view name) {
  for (const StockFile& file : kStockFiles) {
    const bool under = name.size() > file.name.size() && name.ends_with(file.name) &&
                       file.name.ends_with(".json") &&
                       name[name.size() - file.name.size() - 1] == '/';
    if (name == file.name || under) {
      return fmt::format(
          R"({{"bf16": {{"enabled": "auto"}}, "fp16": {{"enabled": "auto"}},
              "gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto",
              "zero_optimization": {{"stage": {}, "overlap_comm": {},
              "offload_optimizer": {{"device": "{}"}}, "offload_param": {{"device": "{}"}}}}}})",
          file.stage, file.overlaps, file.optimizer, file.parameters);
    }
  }
  return {};
}

std::string_view name_of(TrainerProgram program) {
  constexpr std::string_view kNames[] = {"the Trainer", "LLaMA-Factory", "axolotl", "ms-swift"};
  return kNames[static_cast<std::size_t>(program)];
}

std::string deepspeed_file(const TrainerRun& run, const LaunchSetting& file,
                           const LaunchReading& reading, LaunchConfig& config) {
  if (file.value.starts_with("{")) {
    return file.value;  // the JSON itself, as the Trainer's --deepspeed takes it
  }
  const auto json = reading.read ? reading.read(file.value) : std::nullopt;
  if (json) {
    return *json;
  }
  std::string stock = stock_deepspeed_file(file.value);
  if (stock.empty()) {
    throw Error(where_of(run.said, file),
                fmt::format("{} of {}'s run cannot be read below the file's folder or in its "
                            "repository; DeepSpeed's JSON where it is named, or after -- "
                            "deepspeed=FILE or deepspeed=zero3 (zero0 to zero3, zero2_offload, "
                            "zero3_offload), would be right",
                            file.value, name_of(run.program)));
  }
  if (file.value.ends_with(".json")) {
    config.remarks.push_back(fmt::format(
        "{} is not there: it is taken as the program's own file of that name", file.value));
  }
  return stock;
}

// A run's YAML may hold the map itself where the name of DeepSpeed's file would stand
// (transformers, TrainingArguments.deepspeed).
constexpr std::string_view kOwnMap = "deepspeed.";

bool has_own_map(const TrainerRun& run) {
  return std::any_of(run.said.settings.begin(), run.said.settings.end(),
                     [](const LaunchSetting& each) { return each.key.starts_with(kOwnMap); });
}

void read_own_map(const TrainerRun& run, LaunchConfig& config) {
  for (LaunchSetting setting : run.said.settings) {
    if (setting.key.starts_with(kOwnMap)) {
      setting.key.erase(0, kOwnMap.size());
      config.settings.push_back(std::move(setting));
    }
  }
}

// `file`: what the run names; none where its YAML holds the map.
LaunchConfig under_deepspeed(const TrainerRun& run, const LaunchSetting* file,
                             const LaunchReading& reading,
                             const std::vector<std::string>& arguments) {
  LaunchConfig config;
  config.format = LaunchFormat::kDeepspeed;
  config.source = run.said.source;
  if (file == nullptr) {
    read_own_map(run, config);
  } else {
    const std::string text = deepspeed_file(run, *file, reading, config);
    config.source = file->value.ends_with(".json") ? file->value : run.said.source;
    read_json_settings(text, config);
  }
  fill_automatic(run, config);
  read_deepspeed_settings(arguments, config);
  return config;
}

// ---- accelerate: FSDP, or nothing sharded

// "full_shard auto_wrap offload" of TrainingArguments.fsdp, as accelerate's keys.
void add_fsdp_words(const LaunchSetting& words, LaunchConfig& config) {
  std::string text = words.value;
  std::replace(text.begin(), text.end(), ',', ' ');
  for (const std::string_view word : names_in(text)) {
    if (word == "auto_wrap") {
      put_setting(config, "fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", &words);
    } else if (word == "offload") {
      put_setting(config, "fsdp_config.fsdp_offload_params", "true", &words);
    } else {
      put_setting(config, "fsdp_config.fsdp_sharding_strategy", in_capitals(std::string(word)),
                  &words);
    }
  }
}

// The file that ms-swift's --fsdp names: TrainingArguments' two keys, as swift/config/fsdp2.json
// has them.
void add_fsdp_file(const LaunchSetting& named, const TrainerRun& run, const LaunchReading& reading,
                   LaunchConfig& config) {
  const auto text = reading.read ? reading.read(named.value) : std::nullopt;
  if (!text) {
    throw Error(where_of(run.said, named),
                fmt::format("{} cannot be read below the file's folder or in its repository; the "
                            "JSON with fsdp and fsdp_config where it is named would be right",
                            named.value));
  }
  LaunchConfig file;
  file.source = named.value;
  read_json_settings(*text, file);
  for (LaunchSetting& setting : file.settings) {
    if (setting.key == "fsdp") {
      add_fsdp_words(setting, config);
    } else if (setting.key == "fsdp_config.activation_cpu_offload" && is_on(file, setting.key)) {
      config.offload.emplace_back("activations");
    } else if (setting.key.starts_with("fsdp_config.")) {
      config.settings.push_back(setting);
    }
  }
}

// Keys of the run's own fsdp_config, of the file that it names, and ms-swift's fsdp2
// (swift/config/fsdp2.json).
void add_fsdp(const TrainerRun& run, const LaunchReading& reading, LaunchConfig& config) {
  const LaunchSetting* words = run_setting(run.said, "fsdp");
  put_setting(config, "distributed_type", "FSDP", words);
  if (words != nullptr && words->value == "fsdp2") {
    for (const auto& [key, value] : {std::pair{"version", "2"},
                                     {"auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
                                     {"reshard_after_forward", "true"},
                                     {"activation_checkpointing", "true"}}) {
      put_setting(config, fmt::format("fsdp_config.fsdp_{}", key), value, words);
    }
  } else if (words != nullptr && words->value.ends_with(".json")) {
    add_fsdp_file(*words, run, reading, config);
  } else if (words != nullptr && !is_among("true True", words->value)) {
    add_fsdp_words(*words, config);
  }
  if (const LaunchSetting* version = run_setting(run.said, "fsdp_version")) {
    put_setting(config, "fsdp_config.fsdp_version", version->value, version);
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

// accelerate launch's flags, under the names that its file has for them (commands/launch.py):
// --use_fsdp, --zero_stage 3. False: they do not say how the run is sharded.
bool add_accelerate_flags(const TrainerRun& run, LaunchConfig& config) {
  constexpr std::string_view kOfDeepspeed =
      "zero_stage offload_optimizer_device offload_param_device";
  bool shards = false;
  for (const LaunchSetting& flag : run.launcher) {
    if (flag.key == "use_deepspeed" || flag.key == "use_fsdp" || flag.key == "multi_gpu") {
      const char* type = flag.key == "use_fsdp"    ? "FSDP"
                         : flag.key == "multi_gpu" ? "MULTI_GPU"
                                                   : "DEEPSPEED";
      put_setting(config, "distributed_type", type, &flag);
      shards = true;
    } else if (is_among(kOfDeepspeed, flag.key)) {
      put_setting(config, "deepspeed_config." + flag.key, flag.value, &flag);
    } else if (flag.key.starts_with("fsdp_")) {
      put_setting(config, "fsdp_config." + flag.key, flag.value, &flag);
    } else if (flag.key == "mixed_precision" || flag.key == "gradient_accumulation_steps") {
      put_setting(config, flag.key, flag.value, &flag);
    }
  }
  return shards;
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
  const bool in_file = add_accelerate_file(run, reading, config);
  if (add_accelerate_flags(run, config) || in_file) {
    // its distributed_type holds
  } else if (shards) {
    add_fsdp(run, reading, config);
  } else {
    put_setting(config, "distributed_type", "MULTI_GPU", nullptr);
    const bool recipe =
        run.program == TrainerProgram::kTransformers && is_settings_file(run.said.source);
    if (recipe && run.said.gpus.value_or(2) > 1) {
      // recipes of TRL leave it to the file after accelerate launch --config_file
      config.remarks.emplace_back(
          "a recipe does not say how it is sharded: every GPU is taken to hold all of it (DDP); "
          "accelerate's file says it after -- (config_file=zero3.yaml), as deepspeed=zero3 does");
      config.foreign.emplace_back("sharding by accelerate's file, which the recipe does not name,");
    } else if (run.said.gpus.value_or(2) > 1) {
      config.remarks.emplace_back(
          "it names neither DeepSpeed nor FSDP: every GPU holds all of it (DDP)");
    }
  }
  if (const std::string precision = precision_of_trainer(run); !precision.empty()) {
    put_setting(config, "mixed_precision", precision, nullptr);
  }
  add_axolotl_axes(run, config);
  read_accelerate_settings(config);
  settle_axolotl_axes(run, config);
  return config;
}

// Groups of ranks exchange heads for tokens (Ulysses), and what shards does so over all of them:
// ms-swift's sequence_parallel_size (swift/trainers/sequence_parallel; a ring where heads are fewer
// is not told apart) and cp_size of LLaMA-Factory's second syntax (v1/accelerator/interface.py).
void read_ulysses_axis(const TrainerRun& run, LaunchConfig& config) {
  const LaunchSetting* ranks = ulysses_ranks(run);
  if (ranks == nullptr) {
    return;
  }
  if (const auto degree = integer_setting(run.said, ranks->key, 1, 1'000'000); degree > 1) {
    config.layout.context = degree;
    config.choices.emplace_back("context_all_to_all=true");
  }
}

// What the start of such a run compares with the file that shards it.
void add_run(const TrainerRun& run, LaunchConfig& config) {
  for (LaunchSetting setting : run.said.settings) {
    setting.key.insert(0, kRunSection);
    config.settings.push_back(std::move(setting));
  }
  config.settings.push_back({fmt::format("{}program", kRunSection),
                             std::string(kProgramNames[static_cast<std::size_t>(run.program)]), "",
                             0});
}

}  // namespace

void put_program(const std::string& name, LaunchConfig& config) {
  put_setting(config, fmt::format("{}program", kRunSection), name, nullptr);
}

void put_setting(LaunchConfig& config, std::string key, std::string value,
                 const LaunchSetting* from) {
  config.settings.push_back({std::move(key), std::move(value), from == nullptr ? "" : from->spelled,
                             from == nullptr ? 0 : from->line});
}

std::optional<LaunchConfig> read_trainer(std::string_view text, const std::string& source,
                                         const std::vector<std::string>& arguments,
                                         const LaunchReading& reading) {
  const TrainerArguments given =
      trainer_arguments(arguments, is_settings_file(source) ? std::string_view() : text);
  const std::optional<TrainerRun> run = read_trainer_run(text, source, given, reading);
  if (!run) {
    return {};
  }
  const LaunchSetting* file = run_setting(run->said, "deepspeed");
  const auto launched =
      std::find_if(run->launcher.begin(), run->launcher.end(),
                   [](const LaunchSetting& flag) { return flag.key == "deepspeed_config_file"; });
  if (file == nullptr && launched != run->launcher.end()) {
    file = &*launched;
  }
  if (file != nullptr && is_among("none false False", file->value)) {
    file = nullptr;
  }
  const bool shards = file != nullptr || has_own_map(*run);
  if (!shards && !given.deepspeed.empty()) {
    throw Error(given.deepspeed.front(),
                "is of DeepSpeed's JSON, and the run names none; deepspeed=FILE would be right");
  }
  LaunchConfig config = shards ? under_deepspeed(*run, file, reading, given.deepspeed)
                               : under_accelerate(*run, reading);
  read_ulysses_axis(*run, config);
  read_training(*run, config);
  read_expert_axis(*run, config);
  add_run(*run, config);
  return config;
}

}  // namespace trireme::planner
