// What search knows while it walks: bounds of branches, the standings so far, and what a visit of
// one node adds.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "planner/cost/estimate.h"
#include "planner/search/front.h"
#include "planner/search/search.h"
#include "planner/search/space.h"

namespace trireme::planner {

// Below the memory of every layout of a pipeline under one sharding choice.
struct LeastMemory {
  double gib = std::numeric_limits<double>::infinity();
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

// Layouts of one node that may matter, and how many did not.
struct NodeOutcome {
  std::vector<std::pair<std::size_t, Candidate>> fitting,
      risky;  // best of each group, with the group
  std::vector<Candidate> fitting_front, risky_front;
  std::vector<std::pair<std::size_t, Candidate>>
      misses;                             // groups that do not fit, at their least memory
  std::optional<Plan> too_large_example;  // the first that does not fit
  std::vector<RankedPlan> all;            // every layout estimated, when asked for
  std::int64_t evaluated = 0, pruned = 0, feasible = 0, too_large = 0;
};

// One quality of fit: the best plan of each group of layouts with the same degrees, and the front.
struct Tier {
  std::vector<Candidate> groups;  // value infinite where none is known
  Front front;
  // As of the last settle(): a group whose best is above `limit` is neither an alternative nor a
  // tie.
  double limit = 0, best_value = 0;
  [[nodiscard]] std::vector<Candidate> ranked() const;
  [[nodiscard]] const Candidate* best() const;
};

class Standings {
 public:
  void reset(const Space& space, const SearchOptions& options);
  void add(const NodeOutcome& outcome);
  void settle();  // after a round's outcomes
  [[nodiscard]] std::size_t group_of(std::size_t degrees, std::size_t sharding) const {
    return groups_[degrees][sharding];
  }
  // Whether a layout of the group with at least this time and exactly this memory can still change
  // the answer. `known`: the group's best value beyond what stands here.
  [[nodiscard]] bool can_matter(std::size_t group, bool risky, double value, double seconds,
                                double memory_gib, int complexity, double known) const;
  // Whether no layout slower than this can change the answer, whatever its memory.
  [[nodiscard]] bool is_beaten(double seconds) const;
  [[nodiscard]] const Tier& tier_of(bool risky) const { return risky ? risky_ : fitting_; }
  // The tier the answer comes from; nothing when nothing fits.
  [[nodiscard]] const Tier* tier() const;
  [[nodiscard]] const Candidate* risky_best() const { return risky_.best(); }
  [[nodiscard]] std::vector<Candidate> misses(std::size_t most) const;

 private:
  void add_group(Tier& tier, std::size_t group, const Candidate& candidate) const;
  void update_limit(Tier& tier) const;

  std::vector<std::vector<std::size_t>> groups_;  // by degrees and sharding choice
  Tier fitting_, risky_;
  std::map<std::size_t, Candidate> misses_;
  std::size_t alternatives_ = 0;
  bool best_only_ = false;
};

void visit(const Job& job, const SearchOptions& options, const Space& space, std::size_t node,
           const Bounds& bounds, const Standings& standings, Estimator& estimator,
           NodeOutcome& outcome);

}  // namespace trireme::planner
