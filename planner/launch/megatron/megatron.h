// Megatron-LM and Megatron-Bridge: one table of fields under two spellings, what both refuse, and
// what their settings say. Keys are Megatron-LM's flags with underscores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/field_table.h"
#include "planner/launch/launch_config.h"
#include "planner/launch/refusals.h"

namespace trireme::planner {

struct LaunchCommand;

// ---- the table (megatron_fields.cc) and the names (megatron_names.cc)

enum class MegatronUse : std::uint8_t {
  kUnknown,
  kValue,     // read; takes a value
  kSwitch,    // read; stands alone
  kOpposite,  // a switch whose field in Megatron-Bridge says the opposite
  kHarmless,  // neither memory nor time depend on it
};

struct MegatronField {
  MegatronUse use;
  std::string_view flag;    // empty: only Megatron-Bridge has it
  std::string_view bridge;  // the path below cfg; empty: only Megatron-LM has it
  FieldWriter write;
  FieldWriter write_bridge = nullptr;  // where Megatron-Bridge says it in another way
};
// What stands on one line of a script.
using MegatronTopic = std::vector<MegatronField>;
// The written fields: those of the model (megatron_model_fields.cc), then the layout's and the
// step's.
const std::vector<MegatronTopic>& megatron_fields();
std::vector<MegatronTopic> megatron_model_fields();

MegatronUse use_of_megatron_setting(std::string_view key);
// Whether the program reads it.
bool reads_megatron_setting(std::string_view key);
// The settings that the program reads.
std::vector<std::string_view> megatron_settings_read();
// Settings that take a value: an empty one means that the value comes from outside the file.
bool takes_value(std::string_view key);
// Flags that stand alone.
bool is_switch(std::string_view key);
// The row of a path of Megatron-Bridge, by its last part; nullptr: none, or of the same name.
const MegatronField* renamed_by_bridge(std::string_view path);
// The known setting of which an unknown key is a slip of a few letters; empty: none, or the
// framework has that key too.
std::string slip_of_megatron_setting(std::string_view key);
// The flag that an unknown one was probably meant to be, which Megatron-LM's parser would refuse;
// empty: none is near.
std::string near_megatron_flag(std::string_view key);

// ---- programs around it (megatron_programs.cc)

// Whose command line it is, into config.program, with what that program sets itself. Throws Error
// where it trains no decoder.
void read_megatron_program(const LaunchCommand& command, LaunchConfig& config);
// Throws Error where the name of a program, module or subcommand says that it trains nothing.
void refuse_other_work(std::string_view program, const LaunchConfig& config);
// What a program sets where its command does not.
void set_default(LaunchConfig& config, std::string_view key, std::string_view value);
// What slime and miles set themselves (slime.cc): the actor's GPUs, its micro-batches and batch.
void read_slime(LaunchConfig& config);
// Whether a setting that is read decides memory or time by itself: the tokenizer, say, does not.
bool decides_memory_or_time(std::string_view key);
// Megatron-DeepSpeed, and Megatron-LM of 2022 and before.
bool is_older_megatron(const LaunchConfig& config);

// ---- what a plan becomes (megatron_refusals.cc)

// Whose sharded data parallelism runs.
enum class MegatronSharding : std::uint8_t {
  kReplicated,            // DDP
  kDistributedOptimizer,  // DDP with the optimizer's states sharded
  kMegatronFsdp,
  kTorchFsdp2,
};
MegatronSharding megatron_sharding(const Launched& launch);
inline bool is_fsdp(const Launched& l) {
  return megatron_sharding(l) == MegatronSharding::kMegatronFsdp;
}
inline bool is_torch_fsdp(const Launched& l) {
  return megatron_sharding(l) == MegatronSharding::kTorchFsdp2;
}
inline bool has_local_layers(const Job& job) {
  return job.framework.implementation == models::Implementation::kClassicMegatron;
}
inline bool is_local(const Launched& l) {
  return has_local_layers(l.job);
}
// Ranks are tp, cp, pp, dp instead of tp, cp, dp, pp (--use-tp-pp-dp-mapping).
bool pipeline_before_data(const Plan& plan);
// What Megatron-FSDP calls the plan's sharding.
std::string_view fsdp_strategy(Sharding sharding);
// Whether the host may queue on one connection only: Megatron asks for it before Blackwell, where
// tensor or context parallelism must keep the order of launches; FSDP asks for the opposite.
bool wants_one_connection(const LaunchPlan& launch);
struct MegatronOverlap {
  bool grad_reduce = false, param_gather = false;
};
MegatronOverlap megatron_overlap(const LaunchPlan& launch);
// Bytes of one moment of Adam where it is not fp32, else 0; 1 is fp8, 2 is bf16.
int small_moment_bytes(const Job& job);
// Every matrix has a bias (Megatron's add_bias_linear). Requires: the model was not refused.
bool has_linear_biases(const models::Transformer& model);
// Tokens of the position table, or the longest sequence where positions are computed.
std::int64_t megatron_positions(const Job& job);

// ---- the two small languages inside the arguments (megatron_patterns.cc)

// "([0]*3+[1]*58)" or "2" (every second): which layers have experts. Throws Error.
std::vector<bool> read_layer_pattern(const LaunchConfig& config, const LaunchSetting& setting,
                                     std::int64_t layers);
// "Et*3|(tt|)*29,m|L": transformer layers of each stage. Throws Error.
std::vector<std::int64_t> read_pipeline_pattern(const LaunchConfig& config,
                                                const LaunchSetting& setting);
// Whether it has "m|L": extra prediction modules on a chunk before the head's.
bool has_prediction_apart(const LaunchConfig& config, const LaunchSetting& setting);
// One digit a layer, as the Python expression that Megatron evaluates: "([0]*3+[1]*58)".
std::string layer_pattern(const std::vector<bool>& flags);
// How the plan's chunks are said: by nothing, by counting embedding and head as layers, by the
// first and last stage, or chunk by chunk; the plainest form that gives exactly them.
struct StageSplit {
  bool account_for_embedding = false, account_for_loss = false;
  std::int64_t first_stage = 0, last_stage = 0;  // layers of those stages; 0: not said
  std::string layout;                            // "Et*2|t*3|t*2L"; empty: not used
};
StageSplit megatron_stages(const LaunchPlan& launch);

// ---- what settings say

// Fills config.model from the model's settings; leaves it empty when the file does not describe one
// (no number of layers or no hidden size). Throws Error (FILE:LINE) on impossible values.
void read_megatron_model(LaunchConfig& config);
// Whether activations of layers go to the host: Megatron-LM's start switches it on by their number.
bool offloads_layers(const LaunchConfig& config);
// Settings that make another model, take memory away or change nothing here, each said as that.
void note_unmodelled(LaunchConfig& config);
// A file of Megatron-Bridge that names a recipe and says no degree: they are the recipe's.
bool leaves_degrees_to_recipe(const LaunchConfig& config);
// Fills framework, choices, precision, optimizer, batch and layout. Throws Error as above.
void read_megatron_layout(LaunchConfig& config);

}  // namespace trireme::planner
