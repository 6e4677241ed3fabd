// Megatron-LM's settings, whether flags of its command line or fields of Megatron-Bridge: what they
// say of the model, the job and the layout. Keys are the flags' names with underscores.
#pragma once

#include <string>
#include <string_view>

#include "models/transformer.h"
#include "planner/launch/launch_config.h"

namespace trireme::planner {

enum class MegatronUse { kUnknown, kRead, kHarmless };
// Whether the program reads a setting, or knows that neither memory nor time depend on it.
MegatronUse use_of_megatron_setting(std::string_view key);
// The settings that the program reads.
std::vector<std::string_view> megatron_settings_read();
// Settings that take a value: an empty one means that the value comes from outside the file.
bool takes_value(std::string_view key);
// Flags that stand alone.
bool is_switch(std::string_view key);
// The flag that an unknown one was probably meant to be, which Megatron-LM's parser would refuse;
// empty: none is near.
std::string near_megatron_flag(std::string_view key);

// Fills config.model from the model's settings; leaves it empty when the file does not describe one
// (no number of layers or no hidden size). Throws Error (FILE:LINE) on impossible values.
void read_megatron_model(LaunchConfig& config);
// Fills framework, choices, precision, optimizer, batch and layout. Throws Error as above.
void read_megatron_layout(LaunchConfig& config);
// "([0]*3+[1]*58)" or "2" (every second): which layers have experts. Throws Error.
std::vector<bool> read_layer_pattern(const LaunchConfig& config, const LaunchSetting& setting,
                                     std::int64_t layers);
// "Et*3|(tt|)*29,m|L": transformer layers of each stage. Throws Error.
std::vector<std::int64_t> read_pipeline_pattern(const LaunchConfig& config,
                                                const LaunchSetting& setting);
// Whether it has "m|L": extra prediction modules on a chunk before the head's.
bool has_prediction_apart(const LaunchConfig& config, const LaunchSetting& setting);

}  // namespace trireme::planner
