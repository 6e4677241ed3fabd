// A run of verl, between the files that read it: what it says (verl_run.cc) and what that means
// (verl.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/read_launch.h"

namespace trireme::planner {

struct VerlRun {
  LaunchConfig said;              // settings under verl's own names, GPUs, variables, remarks
  std::string base;               // the configuration that the overrides change
  std::vector<std::string> open;  // keys whose value is a variable that the script does not set
  bool rollouts = true;           // an actor of reinforcement learning, not the SFT trainer
  bool older = false;             // the SFT trainer of 2025, which had no engines
  bool easy = false;              // EasyR1's, under verl's names
  bool sky = false;               // SkyRL's, under verl's names
};

// EasyR1's settings (worker.actor.…) as verl's, with its defaults and the file after its config=
// (easyr1.cc).
bool is_easyr1(const LaunchConfig& said);
void rename_easyr1(const LaunchReading& reading, LaunchConfig& said);

// SkyRL's settings (trainer.policy.…) as verl's, with its defaults (skyrl.cc).
bool is_skyrl(const LaunchConfig& said);
void rename_skyrl(bool of_2025, LaunchConfig& said);

// Settings of a YAML that a run names, below the run's own.
void put_file_below(const std::string& file, std::string_view text, LaunchConfig& said);
// The run of a script or YAML. Throws Error, also where it says nothing of verl's.
VerlRun read_verl_run(std::string_view text, const std::string& source,
                      const std::vector<std::string>& arguments, const LaunchReading& reading);

// A setting of the engine that trains, by the names that the actor and both SFT trainers have for
// it, and one of the model; nullptr: not said.
const LaunchSetting* engine_setting(const VerlRun& run, const std::string& key);
const LaunchSetting* model_setting(const VerlRun& run, const std::string& key);
// A switch or a number of those, with what holds where it is not said.
bool says(const LaunchConfig& said, const LaunchSetting* setting, bool otherwise = false);
std::int64_t count_of(const LaunchConfig& said, const LaunchSetting* setting,
                      std::int64_t otherwise);
// fsdp, fsdp2, megatron, …
std::string strategy_of(const VerlRun& run);

}  // namespace trireme::planner
