// Part of pass 2: the buffers of a unit's weights, masters, moments and gradients.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "planner/lower/builder.h"
#include "planner/lower/parameters.h"
#include "planner/lower/place_ranks.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"

namespace trireme::planner::lowering {

// The states' buffers of one unit under the plan's sharding.
class StateWriter {
 public:
  StateWriter(const Plan& plan, const Groups& groups, const Shape& shape, const StepProgram& step,
              ProgramBuilder& builder)
      : plan_(plan), groups_(groups), shape_(shape), step_(step), builder_(builder) {}

  // A unit with all its buffers; fills in the groups of `layout`, whose elements are before
  // padding.
  ParameterUnit unit(std::string name, UnitLayout& layout, bool experts = false);

 private:
  void keep(ParameterUnit& unit, State state, std::string_view name, ElementType type,
            bool sharded);

  const Plan& plan_;
  const Groups& groups_;
  const Shape& shape_;
  const StepProgram& step_;
  ProgramBuilder& builder_;
  std::int64_t shards_ = 1, shard_ = 0, elements_ = 0;
  std::int32_t layer_ = -1;
};

}  // namespace trireme::planner::lowering
