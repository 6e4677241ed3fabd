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
  std::array<std::uint32_t, 2> units = {kNoUnit, kNoUnit};  // whose weights or gradients it touches
};
std::vector<Visit> list_visits(const std::vector<Action>& actions, const StageParameters& stage);

// A unit stays gathered from before visit `first` to the end of visit `last`.
struct GatherSpan {
  std::uint32_t unit = 0, first = 0, last = 0;
};
// In order of `first`. By unit, `stays`: gathered once, to its last visit. Resharding: each run of
// neighbouring visits is a span; else spans reach from a micro-batch's forward to its backward, and
// overlapping ones are one.
std::vector<GatherSpan> plan_gathers(const std::vector<Visit>& visits,
                                     const std::vector<Action>& actions,
                                     const std::vector<bool>& reshards,
                                     const std::vector<bool>& stays);

}  // namespace trireme::planner::lowering
