// The launch configurations that Trireme writes (export) and reads (check).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme::planner {

enum class LaunchFormat : std::uint8_t {
  kMegatron,        // Megatron-LM's command-line arguments, as a shell script
  kMegatronBridge,  // assignments to Megatron-Bridge's configuration, as a Python file
  kTorchtitan,      // torchtitan's TOML of v0.2.x
  kDeepspeed,       // DeepSpeed's JSON
  kAccelerate,      // Hugging Face accelerate's YAML
};

// megatron megatron-bridge torchtitan deepspeed accelerate
std::string_view to_string(LaunchFormat format);
std::vector<std::string_view> launch_format_names();
// Throws Error, listing the formats there are.
LaunchFormat launch_format_of(std::string_view name);

}  // namespace trireme::planner
