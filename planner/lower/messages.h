// What the actions of a stage start from and hand on: messages to and from other stages. Between
// two chunks of one stage that follow each other, as the bottom of a V has them, the tensor itself.
#pragma once

#include <cstdint>
#include <vector>

#include "core/program.h"
#include "planner/lower/builder.h"
#include "planner/lower/parameters.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/schedule.h"
#include "planner/plan/shape.h"

namespace trireme::planner::lowering {

// The streams that a plan's programs have.
MoreStreams more_streams(const Job& job, const Plan& plan);

class StageMessages {
 public:
  // All but the plan's values must outlive this.
  StageMessages(const Plan& plan, const Shape& shape, const GroupAxis& stages, std::int64_t stage,
                const StageParameters& parameters, const std::vector<Action>& actions,
                bool blocking, ProgramBuilder& builder);

  // Receives what action `i` starts from, into a buffer whose memory the action two before had.
  void receive(std::uint32_t i);
  // What it starts from; nothing for an end of the model.
  [[nodiscard]] Operand input(std::uint32_t i) const;
  // What it ends with goes to the next chunk in the direction of its pass.
  void hand_on(std::uint32_t i, const Operand& operand);
  // Sends of earlier actions that are over before this one starts, their memory free again.
  void wait_for_sends(std::uint32_t i);

 private:
  enum Channel : std::uint16_t { kForwardChannel = 0, kBackwardChannel = 1 };

  [[nodiscard]] std::int64_t chunk_of(const Action& action) const;
  // The chunk before it, in the direction of its pass; -1: it starts from none.
  [[nodiscard]] std::int64_t source_of(const Action& action) const;
  [[nodiscard]] bool is_here(std::int64_t chunk) const;
  [[nodiscard]] std::int32_t peer(std::int64_t chunk) const;
  [[nodiscard]] std::uint32_t tag(std::int64_t from, const Action& action) const;
  [[nodiscard]] Stream stream_of(const Action& action, Stream of_first, Stream of_second) const;

  const Plan& plan_;
  const Shape& shape_;
  GroupAxis stages_;
  std::int64_t stage_;
  const StageParameters& parameters_;
  const std::vector<Action>& actions_;
  ProgramBuilder& builder_;
  std::vector<std::vector<std::uint32_t>> waits_;  // by action: those whose sends are over
  std::vector<Operand> inputs_;                    // by action: what it received
  std::vector<OpId> sends_;                        // by action
  // By micro-batch, from one chunk here to the next.
  std::vector<Operand> handed_outputs_, handed_gradients_;
};

}  // namespace trireme::planner::lowering
