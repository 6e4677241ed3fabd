// Stages balanced by time and by memory: where those balanced by time alone do not fit, since early
// stages hold more micro-batches, layers move from the fullest one to those with the least to do.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/memory.h"
#include "planner/plan/balance.h"

namespace trireme::planner {

// `plan` has the split that is balanced by time, with everything that decides its memory. Empty
// when that fits, or when no move makes it fit. Requires: check_plan found no violation.
std::vector<std::int64_t> lean_split(const Plan& plan, const PartCosts& costs, MemoryModel& memory);

}  // namespace trireme::planner
