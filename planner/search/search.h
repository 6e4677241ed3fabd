// The best layouts of a job. The whole legal space is accounted for: every layout is either
// estimated or lies in a branch that a sound bound excludes from the best, the alternatives, the
// ties and the Pareto front. The answer does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "planner/search/constraint.h"
#include "planner/search/space.h"

namespace trireme::planner {

enum class Goal : std::uint8_t { kTime, kMemory, kCost, kUtility };

// F18a: weights of F21's utility.
struct UtilityWeights {
  double throughput = 1, memory = 0.25, complexity = 0.05;
};

struct SearchOptions {
  Goal goal = Goal::kTime;
  UtilityWeights weights;
  std::vector<Constraint> constraints;
  FixedChoices fixed;
  std::size_t alternatives = 10;  // the best so many sets of degrees
  bool keep_evaluated = false;    // SearchResult::evaluated_plans
  bool best_only = false;         // no alternatives, ties and Pareto front; not with kUtility
  int threads = 2;
  // With best_only: seconds (GiB under kMemory) of a layout that fits; what is worse is passed
  // over, and where all of it is worse there is no best.
  std::optional<double> known;
  // What its program cannot start is not looked at. Empty: all is.
  Accepts accepts = {};
  std::function<void(double)>
      progress;  // share of the space that is accounted for; called on the caller's thread
};

// A plan that search names without its whole estimate.
struct RankedPlan {
  Plan plan;
  double step_seconds = 0, low_seconds = 0, high_seconds = 0, memory_gib = 0;
  Fit fit = Fit::kNo;
  int complexity = 0;
};

struct SearchResult {
  std::optional<Estimate> best;        // fits; at risk only when nothing fits for sure
  std::vector<Estimate> alternatives;  // the best plan of each other set of degrees, best first
  std::vector<RankedPlan> ties;        // of those, all whose interval overlaps the best's
  std::vector<RankedPlan> evaluated_plans;  // every layout estimated, when asked for
  std::vector<RankedPlan> pareto;           // step time, memory, complexity; told apart by 1 %
  std::optional<Estimate> at_risk;  // faster than the best, but its reserved memory may not fit
  std::vector<Estimate>
      nearest_misses;  // when nothing fits: least over capacity first, one a set of degrees
  std::vector<Rejection>
      rejected;  // as Space has them; memory counts layouts, other rules branches
  std::int64_t space = 0, evaluated = 0, pruned_by_bound = 0, feasible = 0;
  double search_seconds = 0;
};

// Requires: job.global_batch > 0, options.threads >= 1.
SearchResult search(const Job& job, const SearchOptions& options);

// "stage 0 allocates 94.0 GiB, of which …; … that is 91.2 to 99.1, and the GPU can have 78.1 GiB"
std::string memory_detail(const MemoryEstimate& memory);

// F21 on a scale from 0 to 1: utility of a plan beside the best throughput of the space.
double utility_of(const UtilityWeights& weights, const RankedPlan& plan, double best_step_seconds,
                  double capacity_gib);

}  // namespace trireme::planner
