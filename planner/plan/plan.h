// A Plan is a small value: the degree of every axis and every choice a framework offers. Short
// form: tp8.pp4.fsdp2.mb1. gpus = tensor * pipeline * context * sharded * replicas.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/layer_parts.h"

namespace trireme::planner {

enum class Sharding : std::uint8_t { kNone, kOptimizer, kGradients, kFull };
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
enum class Schedule : std::uint8_t {
  kGpipe,
  kOneForwardOneBackward,
  kInterleaved,
  kZeroBubbleH1,
  kZeroBubbleH2,
  kZeroBubbleV,
  kDualPipeV
};
enum class Axis : std::uint8_t { kTensor, kContext, kSharded, kReplica, kPipeline };

using enum models::RecomputeModule;

struct Plan {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t virtual_pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 0;  // 0 = tensor
  std::int64_t sharded = 1;        // ranks that share one copy of what `sharding` shards (--fsdp)
  std::int64_t replicas = 1;       // groups of those (--dp)
  std::int64_t micro_batch = 1;    // sequences
  std::int64_t micro_batches = 1;  // per step and data-parallel rank
  Sharding sharding = Sharding::kNone;
  bool sequence_parallel = false;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_layers = -1;  // full: layers per (virtual) stage that recompute; -1 = all
  std::uint16_t recompute_modules = kCoreAttention;
  bool reshard_after_forward = true;
  std::int64_t fsdp_unit = 1;  // layers per gathered unit; 0 = the whole model is one unit
  std::vector<std::int64_t>
      stage_layers;  // layers of each of pipeline*virtual_pipeline chunks; empty = even
  // The extra prediction modules stand on the chunk before the head's, Megatron's "m|L".
  bool prediction_apart = false;
  // Fastest axis (neighbouring ranks) first.
  std::array<Axis, 5> order = {Axis::kTensor, Axis::kContext, Axis::kSharded, Axis::kReplica,
                               Axis::kPipeline};
  friend bool operator==(const Plan&, const Plan&) = default;

  [[nodiscard]] std::int64_t data_parallel() const { return sharded * replicas; }
  [[nodiscard]] std::int64_t gpus() const {
    return tensor * pipeline * context * sharded * replicas;
  }
};

// Whether chunks lie in a V (stages.h): such a schedule has two on each rank.
inline bool is_in_v(Schedule schedule) {
  return schedule == Schedule::kZeroBubbleV || schedule == Schedule::kDualPipeV;
}
// Whether every backward is split in input and weight gradients.
inline bool splits_every_backward(Schedule schedule) {
  return schedule == Schedule::kZeroBubbleH1 || schedule == Schedule::kZeroBubbleH2 ||
         schedule == Schedule::kZeroBubbleV;
}
inline constexpr std::int64_t kChunksInV = 2;  // on a rank

std::string short_form(const Plan& plan);  // "tp8.pp4.fsdp2.mb1"
// Reads the short form. Throws Error naming the part that is wrong.
Plan parse_short_form(const std::string& text);
std::string_view to_string(Sharding sharding);    // none optimizer gradients full
std::string_view to_string(Recompute recompute);  // none selective full
std::string_view to_string(Schedule schedule);    // gpipe 1f1b interleaved zb-h1 ... (names.h)
std::string_view to_string(Axis axis);            // tp cp fsdp dp pp
// The bit of one of --recompute-modules' names. Throws Error, listing those that exist.
std::uint16_t recompute_module_of(std::string_view name);
std::string module_names(std::uint16_t modules);      // "core_attn+mlp"
std::int64_t stride_of(const Plan& plan, Axis axis);  // ranks between neighbours on the axis
std::int64_t degree_of(const Plan& plan, Axis axis);

}  // namespace trireme::planner
