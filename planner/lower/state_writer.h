// Part of pass 2: the buffers of a unit's weights, masters, moments and gradients.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "planner/lower/builder.h"
#include "planner/lower/held_memory.h"
#include "planner/lower/parameters.h"
#include "planner/lower/place_ranks.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"

namespace trireme::planner::lowering {

// The states' buffers of one unit under the plan's sharding: this project's by its own types,
// another framework's in the bytes that the closed form has for them.
class StateWriter {
 public:
  StateWriter(const Job& job, const Plan& plan, const Groups& groups, const Shape& shape,
              const HeldMemory& held, const StepProgram& step, ProgramBuilder& builder)
      : job_(job),
        plan_(plan),
        groups_(groups),
        shape_(shape),
        held_(held),
        step_(step),
        builder_(builder) {}

  // A unit with all its buffers; fills in the groups of `layout`, whose elements are before
  // padding.
  ParameterUnit unit(std::string name, UnitLayout& layout, bool experts = false);

 private:
  void keep_own(ParameterUnit& unit);
  void keep_modelled(ParameterUnit& unit, const StateBytes& bytes);
  void keep(ParameterUnit& unit, State state, std::string_view name, ElementType type,
            bool sharded);

  // A buffer of `each` bytes an element of the unit, of which ops name `count` elements.
  Operand modelled_state(std::string_view name, double each, std::int64_t count, bool lasts);

  const Job& job_;
  const Plan& plan_;
  const Groups& groups_;
  const Shape& shape_;
  const HeldMemory& held_;
  const StepProgram& step_;
  ProgramBuilder& builder_;
  std::int64_t shards_ = 1, shard_ = 0, elements_ = 0;
  std::int32_t layer_ = -1;
};

}  // namespace trireme::planner::lowering
