// The one rule of which switches a layout has, and what they make of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/switches.h"

namespace trireme::planner {

// On, and this layout gains no microsecond by it.
bool is_idle(const SwitchGain& gain);

// One layout with the switches that `plan` would give it: every one that keeps the numbers, but
// those that slow it, make it less sure to fit or take memory for nothing.
struct SwitchedPlan {
  Job job;  // with the switches that are on
  Estimate estimate;
  std::vector<SwitchGain> switches;  // those on, by their gain
};
// Requires: check_plan found no violation.
SwitchedPlan switched_for(const Job& job, const Plan& plan, const std::vector<std::string>& given);

// The fewest switches with which one layout is surer to fit, those that change numerics (but the
// precision, which is asked for) among them; nothing where all of them make it no surer.
std::optional<SwitchedPlan> switches_that_fit(const Job& job, const Plan& plan,
                                              const std::vector<std::string>& given);

}  // namespace trireme::planner
