// The order in which a pipeline stage handles micro-batches. Orders: those of the
// schedules' papers and of Megatron-Core's schedules.py; each stage's list is complete, so that no
// stage has to look at another's.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/plan.h"

namespace trireme::planner {

enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,       // input and weight gradients
  kInputGradient,  // the split backward's two halves
  kWeightGradient,
};
struct Action {
  ActionKind kind = ActionKind::kForward;
  std::int16_t chunk = 0;  // on this rank
  std::int32_t micro_batch = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

// Every forward comes before its backward, each once.
std::vector<Action> schedule_micro_batches(const Plan& plan, std::int64_t stage);

// Micro-batches of an interleaved schedule's group: p, or the next number that leaves no smaller
// last group, whose later chunks would wait for stages that wait for them (Megatron-Core refuses
// such a remainder).
std::int64_t group_size_of(const Plan& plan);

}  // namespace trireme::planner
