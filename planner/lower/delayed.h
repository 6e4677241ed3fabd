// Scales of products in 8 bits that come from earlier steps (delayed scaling, as Transformer
// Engine's DelayedScaling with margin 0 and the largest of its history): casts note each tensor's
// largest magnitude, in its row of a history that stays from step to step, and the next step's
// scale is found of all rows. The ranks that have parts of a stage's tensors agree on the largest
// once a step, so that a scale is of a whole tensor of the whole batch, in whatever layout.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "planner/lower/builder.h"
#include "planner/lower/parameters.h"
#include "planner/lower/place_ranks.h"
#include "planner/plan/job.h"

namespace trireme::planner::lowering {

class DelayedScales {
 public:
  enum class Tensor : std::uint8_t { kInput, kWeight, kGradient };

  // Of a stage's products in 8 bits; of none where the job scales otherwise.
  DelayedScales(const Job& job, const Groups& groups, const StageParameters& stage,
                ProgramBuilder& builder);

  // Around all that casts.
  void begin_step();
  void end_step();

  [[nodiscard]] Operand scale(const Slot& weight, Tensor tensor);
  // What a cast notes the largest magnitude in.
  [[nodiscard]] Operand largest(const Slot& weight, Tensor tensor);

 private:
  [[nodiscard]] std::int64_t place(const Slot& weight, Tensor tensor);

  const Groups& groups_;
  ProgramBuilder& builder_;
  std::int64_t products_ = 0, steps_ = 0;
  Operand history_, scales_;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::int64_t> places_;  // by unit and offset
};

}  // namespace trireme::planner::lowering
