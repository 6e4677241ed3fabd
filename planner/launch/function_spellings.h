// How Megatron-LM's arguments and Megatron-Bridge's configuration spell the function of a model
// (models/function.h), or why they cannot: one row a field. Sources: Megatron-LM d98e8a64,
// training/arguments.py, training/argument_utils.py and core/transformer/transformer_config.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"
#include "planner/launch/launch_config.h"

namespace trireme::planner {

struct FunctionSpelling {
  const char* key = nullptr;  // of models/function_table.h
  // Megatron-LM's flag and Megatron-Bridge's attribute, where the field is one setting of its own.
  const char* flag = nullptr;
  const char* attribute = nullptr;
  // Why a value that is not the default cannot be said; nullptr, without a flag: it is said
  // together with other fields (megatron_function).
  const char* refusal = nullptr;
};
std::span<const FunctionSpelling> function_spellings();

// Megatron-Core's MLA scales by yarn with these, which its command line cannot change.
inline constexpr std::int64_t kLatentTrained = 4096;
// Llama 3's scaling is written out with these (core/models/common/embeddings/rotary_pos_embedding).
inline constexpr std::int64_t kLlamaTrained = 8192;

// One setting: `name` with underscores, as both formats have it; an empty value is a switch.
struct FunctionSetting {
  std::string name, value;
};
enum class FunctionFormat { kMegatron, kBridge };
// Every setting that the model's function needs beside its dimensions. Throws Error naming the
// field when the format cannot say it.
std::vector<FunctionSetting> megatron_function(const models::Transformer& model,
                                               FunctionFormat format);
// The function that a configuration describes, for a model whose other fields are read.
void read_megatron_function(const LaunchConfig& config, models::Transformer& model);
// A setting that read_megatron_function reads, and whether it stands without a value.
struct FunctionName {
  std::string_view name;
  bool stands_alone = false;
};
std::vector<FunctionName> function_settings_read();

}  // namespace trireme::planner
