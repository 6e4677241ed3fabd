// One node's layouts: those that a bound or the standings exclude, and what the others come to.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "planner/cost/estimate.h"
#include "planner/search/search.h"
#include "planner/search/space.h"
#include "planner/search/standings.h"

namespace trireme::planner {

// Below the memory of every layout of a pipeline under one sharding choice.
struct LeastMemory {
  GridMemory memory{std::numeric_limits<double>::infinity(), 0};
  Fit fit = Fit::kNo;
};
struct Bounds {
  std::vector<double> seconds;  // by node: below every layout's step time, whatever it recomputes
  std::vector<std::vector<LeastMemory>>
      least_memory;  // by pipeline, then sharding choice; none under best_only
};
// Never slower than the plan.
Plan recomputing_nothing(const Plan& plan);
std::vector<LeastMemory> least_memory(const Job& job, const Space& space, const SpaceNode& node,
                                      Estimator& estimator);

void visit(const SearchOptions& options, const Space& space, std::size_t node, const Bounds& bounds,
           const Standings& standings, Estimator& estimator, NodeOutcome& outcome);

}  // namespace trireme::planner
