// torchtitan of v0.2.x: its TOML as a table, its models and its schedules.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/enum_names.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_config.h"
#include "planner/launch/refusals.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// The fields that are written, as section.key.
std::span<const Field> torchtitan_fields();

// The models that torchtitan v0.2.2 has, under its names: a TOML names one, it cannot describe one.
struct TorchtitanModel {
  std::string name;             // [model] name
  std::string flavor;           // [model] flavor
  std::string assets;           // the Hugging Face model whose tokenizer it uses; empty: not known
  bool pipelines = true;        // qwen3 and gpt_oss have no pipelining function
  bool flex_attention = false;  // runs without context parallelism
};

// What torchtitan v0.2.2 builds under a name of its own; nothing for a name that it lacks.
std::optional<models::Transformer> torchtitan_flavor(std::string_view family,
                                                     std::string_view flavor);

// Names of a model and a size as torchtitan v0.2.2 spells them, whatever case and marks they are
// given in. No family: none of its models; no flavor: none of that model's, which `flavors` lists.
struct TorchtitanName {
  std::string family, flavor, flavors;
  bool pipelines = true;        // its code can be cut into stages
  bool flex_attention = false;  // the flavor's attention has no context parallelism
};
TorchtitanName torchtitan_name(std::string_view family, std::string_view flavor);

// The flavor that computes the same function, or the one that launch.flavor names: "8B", or
// "llama3/8B" where the model's own name does not tell. Throws Error when there is none.
TorchtitanModel torchtitan_model(const LaunchPlan& launch);

// What torchtitan's code of the model can do, whether or not some flavor is the model: of the one
// that is named, else of the dimensions; all where it has none.
struct TorchtitanCode {
  bool pipelines = true, flex_attention = false;
};
TorchtitanCode torchtitan_code(const Launched& launched);

// PyTorch's names of the schedules that a plan can have.
inline constexpr EnumNames kTorchScheduleNames(
    std::to_array<std::pair<Schedule, std::string_view>>({
        {Schedule::kGpipe, "GPipe"},
        {Schedule::kOneForwardOneBackward, "1F1B"},
        {Schedule::kInterleaved, "Interleaved1F1B"},
        {Schedule::kZeroBubbleV, "ZBVZeroBubble"},
        {Schedule::kDualPipeV, "DualPipeV"},
    }));
// Pipeline schedules as PyTorch spells them (torch.distributed.pipelining, get_schedule_class).
std::span<const std::string_view> torchtitan_schedules();
// The configuration's schedule as PyTorch spells it, whatever its case; "1F1B" where none is given.
// Empty for a name that PyTorch does not have.
std::string_view torchtitan_schedule(const LaunchConfig& config);

// --section.key VALUE, --section.key=VALUE and --section.key alone, behind the file's settings.
void add_titan_arguments(LaunchConfig& config, const std::vector<std::string>& arguments);
// The run of settings that stand under torchtitan's own names (training.seq_len). Throws Error.
LaunchConfig read_torchtitan_settings(LaunchConfig config,
                                      const std::vector<std::string>& arguments);

}  // namespace trireme::planner
