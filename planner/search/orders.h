// In which orders a framework can lay its axes over the ranks, and what an order decides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

using AxisOrder = std::array<Axis, 5>;

// The axes whose degree is above 1, as a set of bits.
std::size_t active_axes(const Plan& plan);
// Orders that a framework offers for them, the usual one first; two that differ only in other axes
// are one.
std::vector<AxisOrder> legal_orders(const Job& job, std::size_t active);

// What an order of axes of these degrees decides.
struct Placement {
  std::int64_t tensor_stride = 1, context_stride = 1;
  bool usual = true;  // axes above 1 only ascend, as in the enumeration
};
std::array<std::int64_t, 5> degrees_of(const Plan& plan);  // by Axis
Placement placement_of(const std::array<std::int64_t, 5>& degrees, const AxisOrder& order);
std::vector<Placement> placements_of(const std::array<std::int64_t, 5>& degrees,
                                     const std::vector<AxisOrder>& orders);

}  // namespace trireme::planner
