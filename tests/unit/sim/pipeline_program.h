// Pipelines with given stage times: one rank a stage, one compute op a pass, messages of a given
// time between them.
#pragma once

#include <vector>

#include "planner/plan/plan.h"
#include "planner/plan/schedule.h"
#include "tests/unit/sim/step_builder.h"

namespace trireme::sim {

struct PassTimes {  // picoseconds, of the whole stage and one micro-batch
  std::int64_t forward = 0, input_gradient = 0, weight_gradient = 0;
  std::int64_t message = 0;
};

// `blocking`: a pass does not begin before the messages of the pass before it have left
// (Megatron-LM's default).
inline StepBuilder pipeline_program(const planner::Plan& plan, const PassTimes& pass,
                                    bool blocking) {
  using planner::Action;
  using planner::ActionKind;
  const std::int64_t stages = plan.pipeline;
  const std::int64_t chunks = plan.virtual_pipeline;
  StepBuilder step(stages, stages);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const auto role = static_cast<std::size_t>(stage);
    const auto peer = [&](std::int64_t direction) {
      return static_cast<std::int32_t>((stage + direction + stages) % stages - stage);
    };
    std::vector<OpId> unsent;
    for (const Action& action : planner::schedule_micro_batches(plan, stage)) {
      const std::int64_t place = action.chunk * stages + stage;  // of the model's chunks
      const bool forward = action.kind == ActionKind::kForward;
      const bool weights = action.kind == ActionKind::kWeightGradient;
      std::vector<OpId> waits = blocking ? unsent : std::vector<OpId>{};
      unsent.clear();
      if (!weights && place != (forward ? 0 : stages * chunks - 1)) {
        const auto channel = static_cast<std::uint16_t>(forward ? 0 : 1);
        waits.push_back(step.add(role,
                                 Recv{.peer = peer(forward ? -1 : 1), .channel = channel, .tag = 0},
                                 forward ? 2 : 4, pass.message));
      }
      std::int64_t duration = forward   ? pass.forward
                              : weights ? pass.weight_gradient
                                        : pass.input_gradient;
      duration += action.kind == ActionKind::kBackward ? pass.weight_gradient : 0;
      const OpId compute = step.add(role, Compute{}, 0, duration / chunks, waits);
      Origin& origin = step.program.roles[role].ops.back().origin;
      origin = {forward   ? Phase::kForward
                : weights ? Phase::kWeightGradient
                          : Phase::kBackward,
                action.chunk, -1, action.micro_batch};
      if (!weights && place != (forward ? stages * chunks - 1 : 0)) {
        const auto channel = static_cast<std::uint16_t>(forward ? 0 : 1);
        unsent.push_back(
            step.add(role, Send{.peer = peer(forward ? 1 : -1), .channel = channel, .tag = 0},
                     forward ? 1 : 3, pass.message, {compute}));
      }
    }
  }
  return step;
}

}  // namespace trireme::sim
