// What search knows of the whole space so far: the best of each group of layouts, the front, and
// whether a layout can still change the answer.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/search/front.h"
#include "planner/search/search.h"
#include "planner/search/space.h"

namespace trireme::planner {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSame = 1 + 1e-6;  // values this near are told apart by complexity

// Layouts of one node that may matter, and how many did not.
struct NodeOutcome {
  std::vector<std::pair<std::size_t, Candidate>> fitting,
      risky;  // best of each group, with the group
  std::vector<Candidate> fitting_front, risky_front;
  std::vector<std::pair<std::size_t, Candidate>>
      misses;  // groups that do not fit, at their least memory
  const ShardingChoice* too_large_choice = nullptr;  // the first that does not fit
  std::vector<RankedPlan> all;                       // every layout estimated, when asked for
  std::int64_t evaluated = 0, pruned = 0, feasible = 0, too_large = 0;
  void clear();  // for another node: what was allocated is used again
};

// One quality of fit: the best plan of each group of layouts with the same degrees, and the front.
struct Tier {
  std::vector<Candidate> groups;  // value infinite where none is known
  std::vector<double> values;     // of the groups
  bool changed = false;           // a value, since the last settle()
  Front front;
  // As of the last settle(): a group whose best is above `limit` is neither an alternative nor a
  // tie.
  double limit = 0, best_value = 0;
  void add(std::size_t group, const Candidate& candidate);
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
  [[nodiscard]] bool can_matter(std::size_t group, bool risky, double value, const GridTime& time,
                                const GridMemory& memory, int complexity, double known) const;
  // Whether no layout slower than this can change the answer, whatever its memory.
  [[nodiscard]] bool is_beaten(double seconds) const;
  [[nodiscard]] const Tier& tier_of(bool risky) const { return risky ? risky_ : fitting_; }
  // The tier the answer comes from; nothing when nothing fits.
  [[nodiscard]] const Tier* tier() const;
  [[nodiscard]] const Candidate* risky_best() const { return risky_.best(); }
  [[nodiscard]] std::vector<Candidate> misses(std::size_t most) const;

 private:
  void update_limit(Tier& tier) const;

  std::vector<std::vector<std::size_t>> groups_;  // by degrees and sharding choice
  Tier fitting_, risky_;
  std::map<std::size_t, Candidate> misses_;
  std::size_t alternatives_ = 0;
  bool best_only_ = false;
};

}  // namespace trireme::planner
