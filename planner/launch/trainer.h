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

struct TrainerRun {
  TrainerProgram program = TrainerProgram::kTransformers;
  LaunchConfig said;       // settings under the program's own names, GPUs, variables, remarks
  std::string accelerate;  // the file after accelerate launch --config_file
};

// The run of a YAML or a script; nothing where the text is none.
std::optional<TrainerRun> read_trainer_run(std::string_view text, const std::string& source,
                                           const LaunchReading& reading);
// Whether a YAML is such a run whatever else it holds (axolotl's has accelerate's fsdp_config).
bool is_trainer_yaml(std::string_view text, const std::string& source);

// One thing under the names that programs have for it, the first that is there.
const LaunchSetting* run_setting(const LaunchConfig& run, std::string_view names);
std::string run_text(const LaunchConfig& run, std::string_view names,
                     const std::string& otherwise = "");
std::optional<std::int64_t> run_count(const LaunchConfig& run, std::string_view names);

// "bf16", "fp16" or nothing: what the run computes in.
std::string precision_of_trainer(const TrainerRun& run);

// The model, lengths, batch, recompute and what is trained, into a configuration whose sharding is
// known.
void read_training(const TrainerRun& run, LaunchConfig& config);

}  // namespace trireme::planner
