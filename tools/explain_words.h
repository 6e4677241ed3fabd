// Why this layout, in sentences: what binds it, what the nearest alternative costs, what one change
// would make another one the best.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"

namespace trireme::tools {

// "compute takes 71 % of the step; of the rest most is ..."
std::string what_binds_time(const planner::Estimate& estimate);
std::string what_binds_memory(const planner::Estimate& estimate);
// Whether it fits comes first where it is less sure to than the chosen one.
std::string what_rival_costs(const planner::Estimate& chosen, const planner::Estimate& rival);
// Of each axis of the layout, what the best is without it, and the faster layout without it that
// does not fit. Searches once an axis.
std::vector<std::string> why_axes(const planner::Job& job, const planner::Estimate& chosen);

// One change of the job that makes a layout with other degrees the best.
struct Flip {
  std::string change;  // "a global batch of 1024"
  std::string layout;  // that is then the best
  double step_seconds = 0;
};
// Searches once a change, with the switches that are on in the job. `best` is the best layout of
// the job as it is.
std::vector<Flip> what_would_flip(const planner::Job& job, const planner::Plan& best);

}  // namespace trireme::tools
