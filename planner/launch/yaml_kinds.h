// YAML whose keys are another format's settings: NeMo 1's and Megatron-Bridge's, ms-swift's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/read_launch.h"

namespace trireme::planner {

constexpr std::string_view kMegatronDegrees =
    "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
    "expert_model_parallel_size";
// Whether a line of the outermost map (or of one inside, `indent`) begins with the key.
bool has_line(std::string_view text, std::string_view key, bool indent);

// NeMo 1's YAML or Megatron-Bridge's overrides: whether it is one, and its settings by
// Megatron-Bridge's paths; GPUs and what is not modelled go into config.
bool is_megatron_yaml(std::string_view text);
bool has_nemo_trainer(std::string_view text);  // NeMo 1's: no recipe stands behind it
std::vector<LaunchSetting> megatron_yaml_settings(std::string_view text, LaunchConfig& config);

// Primus' YAML of a framework (megatron, torchtitan), and what ${NAME:value} says without NAME.
bool is_primus_yaml(std::string_view text, std::string_view framework);
std::string without_variable(const std::string& value);
LaunchConfig read_primus_titan(std::string_view text, const std::string& source,
                               const std::vector<std::string>& arguments,
                               const LaunchReading& reading);

// YAML whose leaves are Megatron-LM's arguments (Primus', FlagScale's): the command that says the
// same, with what the model's file has where it can be read, and the model's name in it.
bool is_flag_yaml(std::string_view text);
std::string command_of_flag_yaml(std::string_view text, const std::string& source,
                                 const LaunchReading& reading);
std::string flag_yaml_model(std::string_view text, const std::string& source);

// ms-swift's YAML (of `megatron sft` where it has Megatron's degrees), as the command that says the
// same; a script with the flags of the YAML that it starts ms-swift with in that one's place.
bool is_swift_yaml(std::string_view text);
bool is_swift_megatron_yaml(std::string_view text);
std::string swift_command_of_yaml(std::string_view text, const std::string& source);
std::string with_swift_yaml(std::string_view script, const LaunchReading& reading);

}  // namespace trireme::planner
