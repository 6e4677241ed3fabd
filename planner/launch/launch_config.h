// A launch configuration as read: what the file says, line by line, and what it means for the job
// and the layout. Plain data; planner/launch/launch_case.h turns it into a job and a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"
#include "planner/launch/launch_layout.h"
#include "planner/plan/training.h"

namespace trireme::planner {

// One key and its value. Keys are canonical (tensor_model_parallel_size for the flag
// --tensor-model-parallel-size and for model.tensor_model_parallel_size); `spelled` is the file's.
struct LaunchSetting {
  std::string key, value, spelled;
  int line = 0;            // 0: an extra argument of the command line
  bool open = false;       // a value stands there of which the file says nothing
  std::string meant = {};  // of an unknown key: the known one of which it is a slip, if any
};

// A condition that the file leaves to whoever starts it.
struct LaunchQuestion {
  std::string text;
  int line = 0;
};

// Whose command line it is: programs around Megatron-LM set some of its defaults themselves.
enum class MegatronProgram : std::uint8_t {
  kMegatron,   // pretrain_gpt.py, or arguments alone
  kDeepspeed,  // Megatron-DeepSpeed
  kSwift,      // megatron sft … of ms-swift
  kSlime,
  kVerl,   // Megatron-Core without Megatron-LM's arguments.py
  kOther,  // another program with Megatron-LM's flags among its own
};

// GPUs that a file may start; more are refused.
inline constexpr std::int64_t kMostGpus = 1'000'000'000;

struct LaunchConfig {
  LaunchFormat format = LaunchFormat::kMegatron;
  std::string source;                      // the file's name
  std::vector<LaunchSetting> settings;     // in order; the last of a key holds
  std::vector<LaunchSetting> environment;  // exported variables
  std::vector<LaunchSetting> unknown;      // settings that the program does not know
  std::vector<LaunchSetting> empty;        // flags whose value is missing
  std::vector<LaunchQuestion> undecided;
  std::vector<std::string> files;  // that a script sources; their lines count on from its own

  // What decides memory or time and is not modelled ("--fine-grained-activation-offloading"), and
  // arguments that could not be worked out: no verdict rests on a guess about either.
  std::vector<std::string> unmodelled, unreadable;
  // What makes another model than the one that is counted, or memory that is not: no verdict at
  // all.
  std::vector<std::string> foreign;
  // What lies on the same GPUs while this trains and is not counted ("the critic"): where it fits,
  // there is no verdict.
  std::vector<std::string> beside;
  std::int64_t recompute_together = 1;  // layers that recompute as one unit
  std::vector<LaunchSetting> unset;  // whose value is a variable that the file does not set: "$MBS"
  std::vector<std::string> offload;  // parts as `--offload` takes them: "optimizer=0.5"
  bool offloads_checkpoints = false;  // what layers that recompute keep goes to the host
  bool recompute_is_open = false;     // the program decides it, not this file
  MegatronProgram program = MegatronProgram::kMegatron;
  std::int64_t sequences_a_sample = 1;  // of which its batches count: pairs of answers are two
  Training training;                    // what is trained: the weights, or adapters beside them

  std::optional<models::Transformer> model;  // what the file itself describes
  std::string model_name;                    // or the preset that it names
  std::string model_said;                    // the name as the file has it
  // How it shards (the base of an entry of frameworks.json), and the release of the format's own
  // program where the file tells it (launch_layout.h).
  std::string framework = "megatron", release;
  std::string predicted_as;  // the entry that the comment of an exported file names
  std::string precision, optimizer, attention;
  std::optional<double> capacity_factor;  // tokens that an expert takes, of an even share
  // What is computed in where nothing is sharded beside tp or pp (torchtitan up to v0.2.2); empty:
  // the same.
  std::string unsharded_precision;
  std::vector<std::string> choices;  // KEY=VALUE of the framework
  std::optional<std::int64_t> gpus, gpus_per_node, sequence, global_batch, accumulation;
  // How many torchrun (or deepspeed, accelerate) srun starts on every node, and the line of srun.
  std::optional<std::int64_t> tasks_per_node;
  int tasks_line = 0;
  // Ranks are started by torchrun, which gives each of several a node one thread unless
  // OMP_NUM_THREADS is set (torch/distributed/run.py), or by accelerate, which starts that.
  bool one_thread_a_rank = false;
  LaunchLayout layout;
  std::vector<std::string> unread;  // sourced files that cannot be read
  std::vector<std::string> remarks;
};

// The last setting of a key; nullptr when there is none.
const LaunchSetting* find_setting(const LaunchConfig& config, std::string_view key);
bool has_setting(const LaunchConfig& config, std::string_view key);
// "line 12", or "line 3 of models/x.sh".
std::string line_of(const LaunchConfig& config, int line);
// "FILE:LINE", or "FILE: arguments" for what the command line adds.
std::string where_of(const LaunchConfig& config, const LaunchSetting& setting);
// Throws the Error of a value that is none of its setting; `right`: what would be.
[[noreturn]] void refuse_setting(const LaunchConfig& config, const LaunchSetting& setting,
                                 const std::string& right);
// Values as numbers and switches. Throw Error with FILE:LINE when the value is of another kind.
std::optional<std::int64_t> integer_setting(const LaunchConfig& config, std::string_view key,
                                            std::int64_t low = 1,
                                            std::int64_t high = 1'000'000'000);
std::optional<double> number_setting(const LaunchConfig& config, std::string_view key);
// true, True, 1, yes, on and an empty value (a flag alone); their opposites; nothing when absent or
// null.
std::optional<bool> switch_setting(const LaunchConfig& config, std::string_view key);
bool is_on(const LaunchConfig& config, std::string_view key);  // present and true
// Of names that a program compares without regard to case.
std::string in_capitals(std::string text);
std::string text_setting(const LaunchConfig& config, std::string_view key,
                         const std::string& otherwise = "");
// "core_attn layernorm", "[\"mlp\", \"moe\"]" or "core_attn,mlp". Throws Error naming
// --recompute-modules.
std::uint16_t recompute_modules_in(std::string names);
// KEY=VALUE words of the command line, after the file's own. Throws Error showing `example`.
void add_arguments(const std::vector<std::string>& arguments, const std::string& example,
                   LaunchConfig& config);
// The keys (section.name) that a format's reader knows, and the beginnings ("bf16.") of those that
// it takes whatever follows.
struct KnownKeys {
  std::vector<std::string_view> keys;
  std::vector<std::string_view> sections;
  std::vector<std::string_view> inside;  // of those, keys of which another one may be a slip
};
bool is_known(const KnownKeys& known, std::string_view key);
// Lists the settings whose keys are not known, with what was meant.
void note_unknown(LaunchConfig& config, const KnownKeys& known);
// Samples that are not joined: the length of the run is that of the longest, and no verdict of
// "does not fit" rests on it.
void note_unpacked(LaunchConfig& config);
// Of an exported variable; nullptr when it is not set.
const LaunchSetting* find_variable(const LaunchConfig& config, std::string_view name);

}  // namespace trireme::planner
