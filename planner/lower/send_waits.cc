#include "planner/lower/send_waits.h"

#include <algorithm>

#include "planner/plan/schedule_times.h"
#include "planner/plan/stages.h"

namespace trireme::planner::lowering {
namespace {

using Waits = std::vector<std::vector<std::uint32_t>>;

// Looped chunks: a send is over before the action after the next starts; blocking: before the next.
Waits some_actions_later(const Plan& plan, std::size_t actions, bool blocking) {
  // In a group larger than p the last stage's outputs wait for the first stage to get to them, a
  // forward and a backward further on each.
  const std::int64_t more = plan.virtual_pipeline > 1 && plan.micro_batches > plan.pipeline
                                ? 2 * (group_size_of(plan) - plan.pipeline)
                                : 0;
  // ZB-H2's forwards run ahead of the next stage's by two micro-batches of three actions each.
  const std::int64_t ahead = plan.schedule == Schedule::kZeroBubbleH2 ? 2 * 3 : 0;
  const std::size_t behind = (blocking ? 1U : 2U) + static_cast<std::size_t>(more + ahead);
  Waits waits(actions);
  for (std::size_t i = behind; i < actions; ++i) {
    waits[i].push_back(static_cast<std::uint32_t>(i - behind));
  }
  return waits;
}

// The chunk that takes what an action hands on; -1: none, or its own rank's.
std::int64_t taker(const Plan& plan, std::int64_t stage, const Action& action) {
  const std::int64_t chunk = chunk_of_rank(plan, stage, action.chunk);
  const std::int64_t to = action.kind == ActionKind::kForward ? chunk + 1 : chunk - 1;
  const bool is_one = action.kind != ActionKind::kWeightGradient && to >= 0 &&
                      to < plan.pipeline * plan.virtual_pipeline;
  return is_one && rank_of_chunk(plan, to) != stage ? to : -1;
}

bool takes(const Action& action, const Action& sent, std::int64_t place) {
  const bool forward = sent.kind == ActionKind::kForward;
  return action.chunk == place && action.micro_batch == sent.micro_batch &&
         action.kind != ActionKind::kWeightGradient &&
         (action.kind == ActionKind::kForward) == forward;
}

// In a V a rank runs ahead of the one that takes its outputs by a number of actions that changes
// through the step. If all passes took as long, the other rank would have begun on a message before
// the action that waits for it: so the waits close no circle.
Waits once_taken(const Plan& plan, std::int64_t stage) {
  const std::vector<PassSeconds> alike(
      static_cast<std::size_t>(plan.pipeline * plan.virtual_pipeline));
  const ScheduleTimes times = time_schedule(plan, alike, 0);
  const std::vector<Action>& mine = times.actions[static_cast<std::size_t>(stage)];
  const std::vector<double>& begins = times.begins[static_cast<std::size_t>(stage)];
  Waits waits(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::int64_t to = taker(plan, stage, mine[i]);
    if (to < 0) {
      continue;
    }
    const auto rank = static_cast<std::size_t>(rank_of_chunk(plan, to));
    const std::vector<Action>& theirs = times.actions[rank];
    const auto taken = std::find_if(theirs.begin(), theirs.end(), [&](const Action& action) {
      return takes(action, mine[i], to / plan.pipeline);
    });
    const double begin = times.begins[rank][static_cast<std::size_t>(taken - theirs.begin())];
    const auto first = std::lower_bound(begins.begin(), begins.end(), begin) - begins.begin();
    const std::size_t waiting = std::max(static_cast<std::size_t>(first), i + 2);
    if (waiting < mine.size()) {
      waits[waiting].push_back(static_cast<std::uint32_t>(i));
    }
  }
  return waits;
}

}  // namespace

Waits waits_for_sends(const Plan& plan, std::int64_t stage, bool blocking) {
  if (is_in_v(plan.schedule) && plan.pipeline > 1) {
    return once_taken(plan, stage);
  }
  return some_actions_later(plan, schedule_micro_batches(plan, stage).size(), blocking);
}

}  // namespace trireme::planner::lowering
