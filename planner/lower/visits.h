// Pass 4: the blocks (embedding, layers, head) that a stage visits, in order, with the parameter
// units each one needs. What is gathered when, and when a unit's gradient is complete, follows from
// this list alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/lower/parameters.h"
#include "planner/plan/job.h"
#include "planner/plan/schedule.h"

namespace trireme::planner::lowering {

enum class Block : std::uint8_t { kEmbedding, kLayer, kHead };

struct Visit {
  std::uint32_t action = 0;  // in the stage's list
  Block block = Block::kLayer;
  std::int32_t layer = -1;
  // Whose weights or gradients it touches.
  std::array<std::uint32_t, 3> units = {kNoUnit, kNoUnit, kNoUnit};
};
std::vector<Visit> list_visits(const std::vector<Action>& actions, const StageParameters& stage);

// A unit stays gathered from before visit `first` to the end of visit `last`.
struct GatherSpan {
  std::uint32_t unit = 0, first = 0, last = 0;
};
// When a unit that was gathered is let go.
enum class LetGo : std::uint8_t {
  kNever,          // after its last visit
  kAfterVisit,     // neighbouring visits are one span
  kAfterBackward,  // from a micro-batch's forward to its backward; overlapping spans are one
};
// In order of `first`; `let_go` by unit.
std::vector<GatherSpan> plan_gathers(const std::vector<Visit>& visits,
                                     const std::vector<Action>& actions,
                                     const std::vector<LetGo>& let_go);

}  // namespace trireme::planner::lowering
