// The formats of launch configurations that Trireme writes (export) and reads (check): whose
// program a file of each starts, and the layout that they all describe, each part under every
// format's name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.h"

namespace trireme::planner {

struct LaunchConfig;

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

// ---- whose program a file starts: the entry of frameworks.json whose behaviour its prediction has

// The entry of the program that the format starts where that shards as `base` does: "torchtitan"
// for torchtitan's fsdp2. `base` itself where the format's program has no entry of its own.
std::string program_of(LaunchFormat format, const std::string& base);
// Whether the entry is some format's program of that kind.
bool is_program(const std::string& entry);

// The release that a comment of the file names ("For torchtitan v0.2.2"), else the newest one whose
// names of settings the file has; empty where neither tells, or the release is not listed.
std::string release_of(const LaunchConfig& config, std::string_view text);
// Of the comment in which `export` says as whose entry it predicted (megatron-bridge where a file
// of Megatron-Bridge shards as megatron does); empty where it says none, or one that shards
// otherwise.
inline constexpr std::string_view kPredictedAs = "Predicted, as ";
std::string predicted_as(const LaunchConfig& config, std::string_view text);

// ---- the layout

// What the configuration says of the layout; a part that it leaves open is empty.
struct LaunchLayout {
  std::optional<std::int64_t> tensor, pipeline, virtual_pipeline, context, expert, expert_tensor;
  std::optional<std::int64_t> sharded, replicas;  // the rest of the GPUs goes to the one left open
  std::optional<std::int64_t> micro_batch, micro_batches;
  Sharding sharding = Sharding::kNone;
  bool shards_in_node = false;  // sharded over a node's ranks, replicated over nodes
  bool sequence_parallel = false;
  std::optional<Schedule> schedule;
  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_layers = -1;
  // Every so many blocks recompute (torchtitan's selective option as a number); 0 = not said.
  std::int64_t recompute_every = 0;
  std::uint16_t recompute_modules = kCoreAttention;
  bool reshard_after_forward = true;
  std::int64_t fsdp_unit = 1;
  std::vector<std::int64_t> stage_layers;
  bool prediction_apart = false;      // "m|L": extra prediction modules before the head's chunk
  bool pipeline_before_data = false;  // rank order tp, cp, pp, dp
  // The schedule's layer count for one stage where the file gives that instead of stages.
  std::int64_t layers_per_virtual_stage = 0;
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;  // 0 = as the others
  // Layers that the first and the last chunk hold less than the others (embedding and head counted
  // as so many); spread_layers: remainders go to the first chunks (torchtitan).
  std::int64_t first_chunk_less = 0, last_chunk_less = 0;
  bool spread_layers = false;
};

// Virtual stages a rank that the configuration asks for over so many stages.
std::int64_t virtual_stages_of(const LaunchLayout& layout, std::int64_t layers,
                               std::int64_t pipeline);

// The chunks' layers that the configuration's own split gives; empty when it is the even one, or
// when the numbers do not work out (which a rule reports).
std::vector<std::int64_t> split_of(const LaunchLayout& layout, std::int64_t layers,
                                   std::int64_t pipeline, std::int64_t virtual_pipeline);

enum class Knob : std::uint8_t {
  kTensor,
  kPipeline,
  kVirtual,
  kContext,
  kExpert,
  kExpertTensor,
  kMicroBatch,
  kGlobalBatch,
  kSequence,
  kSequenceParallel
};

struct LayoutField {
  Knob knob = Knob::kTensor;
  // By format, in the order of LaunchFormat; with a blank inside: words, for there is no such key.
  std::array<std::string_view, 5> names;
  std::optional<std::int64_t> LaunchLayout::*read = nullptr;  // nullptr: read with others
  std::int64_t Plan::*degree = nullptr;
};
const LayoutField& layout_field(Knob knob);

// Fills what the settings say of the fields by their names in `format`. Throws Error (FILE:LINE).
void read_layout_fields(LaunchConfig& config, LaunchFormat format);
// The field with a value as the format writes it, for fixes: "--tensor-model-parallel-size 4".
std::string spelled(LaunchFormat format, Knob knob, const std::string& value);

}  // namespace trireme::planner
