// In which orders a framework can lay its axes over the ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/search/space.h"

namespace trireme::planner {

// The axes whose degree is above 1, as a set of bits.
std::size_t active_axes(const Plan& plan);
// Orders that a framework offers for them, the usual one first; two that differ only in other axes
// are one.
std::vector<AxisOrder> legal_orders(const Job& job, std::size_t active);

}  // namespace trireme::planner
