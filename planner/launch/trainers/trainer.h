// Runs of programs around transformers' Trainer, between the files that read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/launch/read_launch.h"

namespace trireme::planner {

// Whose names and defaults hold.
enum class TrainerProgram : std::uint8_t {
  kTransformers,  // TRL and scripts of one's own
  kFactory,       // LLaMA-Factory
  kAxolotl,
  kSwift,  // ms-swift
};

// The run's own settings stand behind those of the file that shards it, under this section: what
// starts such a run compares the two. run.program says whose it is.
inline constexpr std::string_view kRunSection = "run.";
inline constexpr std::string_view kProgramNames[] = {"transformers", "llama-factory", "axolotl",
                                                     "ms-swift"};

inline bool is_yaml(std::string_view name) {
  return name.ends_with(".yaml") || name.ends_with(".yml");
}

// A file of settings: transformers' HfArgumentParser takes JSON where others take YAML.
inline bool is_settings_file(std::string_view name) {
  return is_yaml(name) || name.ends_with(".json");
}

struct TrainerRun {
  TrainerProgram program = TrainerProgram::kTransformers;
  LaunchConfig said;       // settings under the program's own names, GPUs, variables, remarks
  std::string accelerate;  // the file after accelerate launch --config_file
  // accelerate launch's own flags, which stand for that file or override it: --use_deepspeed
  std::vector<LaunchSetting> launcher;
  std::string method;  // that its program's name says: "dpo" of dpo.py
};

// What follows the file on the command line: a script's own words, settings of the run, and those
// of DeepSpeed's JSON (zero_optimization.stage=2), which alone have sections or its names.
struct TrainerArguments {
  std::vector<std::string> words, deepspeed;
  std::vector<LaunchSetting> run;
  std::string other;  // the first that is neither KEY=VALUE, --key=value nor --key value
};
// `script`: its text, empty where the file is none.
TrainerArguments trainer_arguments(const std::vector<std::string>& arguments,
                                   std::string_view script);

// The run of a YAML or a script; nothing where the text is none. Throws Error for an argument that
// is no setting.
std::optional<TrainerRun> read_trainer_run(std::string_view text, const std::string& source,
                                           const TrainerArguments& arguments,
                                           const LaunchReading& reading);
// Settings of LLaMA-Factory's second syntax under the first one's names, with its defaults.
void rename_factory_v1(LaunchConfig& said);
// Sets `meant` of settings whose keys are a few letters off one that decides memory or time.
void note_slips(LaunchConfig& run);
// Throws the Error of the first key that is none of `known` (lists that blanks separate) nor of
// `others` and a few letters off one of them: programs that hold their keys to a list stop on it.
// `what`: "flag of OpenRLHF".
void refuse_slips(const LaunchConfig& said, std::string_view known, std::string_view others,
                  std::string_view what);
// Settings that name others (${data.train_batch_size}) get what those are set to. Those of which
// nothing is said, and those that are still to be given ("???"), are as if they were not there.
void settle_references(LaunchConfig& said);
// Whether a YAML or JSON is such a run whatever else it holds (axolotl's has accelerate's
// fsdp_config).
bool is_trainer_file(std::string_view text, const std::string& source);

// What says how many ranks share a sequence by exchanging heads for tokens (Ulysses), in the
// programs that have it of their own; nullptr: nothing does.
const LaunchSetting* ulysses_ranks(const TrainerRun& run);

// One thing under the names that programs have for it, the first that is there.
const LaunchSetting* run_setting(const LaunchConfig& run, std::string_view names);
std::string run_text(const LaunchConfig& run, std::string_view names,
                     const std::string& otherwise = "");
std::optional<std::int64_t> run_count(const LaunchConfig& run, std::string_view names);
std::int64_t run_count(const LaunchConfig& run, std::string_view names, std::int64_t otherwise);

// What lies between the commas that are in no braces or brackets, without blanks around: "2" and
// "${a, b}" of "2, ${a, b}".
std::vector<std::string_view> parts_outside_braces(std::string_view list);

// Whose words the fixes are in (planner/start/trainer_words.cc).
void put_program(const std::string& name, LaunchConfig& config);
// A setting of the file that shards the run, as `from` says it.
void put_setting(LaunchConfig& config, std::string key, std::string value,
                 const LaunchSetting* from);

// axolotl's own names of accelerate's parallelism_config (utils/distributed.py,
// get_parallel_config_kwargs), before accelerate's settings are read; what dp_shard_size leaves out
// is every rank that is left, settled behind them; and the axis of its experts, once the model is
// known.
void add_axolotl_axes(const TrainerRun& run, LaunchConfig& config);
void settle_axolotl_axes(const TrainerRun& run, LaunchConfig& config);
void read_expert_axis(const TrainerRun& run, LaunchConfig& config);

// The model's name or folder: the preset that it names, and what it has beside its decoder.
void take_model(const std::string& model, LaunchConfig& config);
// Names of layers that get adapters; ones that are not known leave the verdict open.
void take_targets(std::string_view spelled, const std::string& names, LaunchConfig& config);

// "bf16", "fp16" or nothing: what the run computes in.
std::string precision_of_trainer(const TrainerRun& run);

// FSDP1 beside adapters: whether checkpoints are reentrant (`frozen_graph_stays`), where the run or
// its program says so.
void read_reentrance(const TrainerRun& run, LaunchConfig& config);

// The model, lengths, batch, recompute and what is trained, into a configuration whose sharding is
// known.
void read_training(const TrainerRun& run, LaunchConfig& config);

}  // namespace trireme::planner
