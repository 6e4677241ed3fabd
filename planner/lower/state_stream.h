// Part of the optimizer's pass where its states lie on the host: a unit's states come to the device
// some elements at a time, are updated there, and go back. Places on the device take turns, so that
// one chunk comes while another is updated and a third goes.
#pragma once

#include <array>
#include <cstdint>

#include "planner/lower/builder.h"
#include "planner/plan/moved_offload.h"

namespace trireme::planner::lowering {

// What the update of a unit, or of a part of one, reads and writes. `states`: master and moments.
struct StepOperands {
  Operand gradient, factor, weight;
  std::array<Operand, 3> states;
};

class StateStream {
 public:
  // Chunks of at most `elements`.
  StateStream(ProgramBuilder& builder, std::int64_t elements)
      : builder_(builder), elements_(elements) {}
  // The update of a whole unit, whose states are on the host.
  void update(const StepOperands& unit);

 private:
  using Place = std::array<Operand, 3>;
  [[nodiscard]] Place next_place(std::int64_t count);
  void update_chunk(const StepOperands& unit, std::int64_t offset, std::int64_t count);

  ProgramBuilder& builder_;
  std::int64_t elements_;
  std::array<Place, kStreamedPlaces> places_{};
  std::size_t next_ = 0;
};

}  // namespace trireme::planner::lowering
