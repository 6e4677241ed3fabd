#include "planner/search/standings.h"

#include <algorithm>
#include <utility>

namespace trireme::planner {

void NodeOutcome::clear() {
  fitting.clear();
  risky.clear();
  fitting_front.clear();
  risky_front.clear();
  misses.clear();
  all.clear();
  too_large_choice = nullptr;
  evaluated = pruned = feasible = too_large = 0;
}

std::vector<Candidate> Tier::ranked() const {
  std::vector<Candidate> known;
  for (const Candidate& candidate : groups) {
    if (candidate.value < kNever) {
      known.push_back(candidate);
    }
  }
  std::sort(known.begin(), known.end(), better);
  return known;
}

void Tier::add(std::size_t group, const Candidate& candidate) {
  if (better(candidate, groups[group])) {
    groups[group] = candidate;
    values[group] = candidate.value;
    changed = true;
  }
}

// Of those whose values are the same the first that `better` leaves.
const Candidate* Tier::best() const {
  const auto least = std::min_element(values.begin(), values.end());
  if (least == values.end() || !(*least < kNever)) {
    return nullptr;
  }
  const Candidate* best = nullptr;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] <= *least * kSame && (best == nullptr || better(groups[i], *best))) {
      best = &groups[i];
    }
  }
  return best;
}

void Standings::reset(const Space& space, const SearchOptions& options) {
  alternatives_ = options.alternatives;
  best_only_ = options.best_only;
  std::size_t count = 0;
  for (const Degrees& degrees : space.degrees) {
    std::vector<std::size_t>& groups = groups_.emplace_back();
    for (std::size_t c = 0; c < degrees.shardings.size(); ++c) {
      std::size_t same = 0;
      while (same < c && degrees.shardings[same].sharded != degrees.shardings[c].sharded) {
        ++same;
      }
      groups.push_back(same < c ? groups[same] : count++);
    }
  }
  Candidate none;
  none.value = kNever;
  for (Tier* tier : {&fitting_, &risky_}) {
    tier->groups.assign(count, none);
    tier->values.assign(count, kNever);
    tier->limit = tier->best_value = kNever;
  }
  if (best_only_ && options.known) {
    fitting_.limit = fitting_.best_value = *options.known;
  }
}

bool Standings::can_matter(std::size_t group, bool risky, double value, const GridTime& time,
                           const GridMemory& memory, int complexity, double known) const {
  const Tier& tier = risky ? risky_ : fitting_;
  if (risky && fitting_.best_value < kNever) {
    // Something fits for sure: a layout at risk is only worth a remark, when it beats that.
    return !best_only_ && value < fitting_.best_value && value <= risky_.best_value * kSame;
  }
  if (value <= std::min({tier.limit, tier.values[group], known}) * kSame) {
    return true;
  }
  return !best_only_ && !tier.front.covers(time, memory, complexity);
}

bool Standings::is_beaten(double seconds) const {
  return best_only_ && fitting_.best_value < kNever && seconds > fitting_.best_value * kSame;
}

void Standings::update_limit(Tier& tier) const {
  if (!std::exchange(tier.changed, false)) {
    return;
  }
  const Candidate* best = tier.best();
  if (best == nullptr) {
    return;
  }
  tier.best_value = best->value;
  if (best_only_) {
    tier.limit = best->value;
    return;
  }
  std::vector<double> values = tier.values;
  double last = kNever;  // of the alternatives
  if (values.size() > alternatives_) {
    const auto nth = values.begin() + static_cast<std::ptrdiff_t>(alternatives_);
    std::nth_element(values.begin(), nth, values.end());
    last = *nth;
  }
  // Ties are looked for as far as the best's interval asks for: others' are wider only where their
  // host binds.
  tier.limit = std::max(best->value * best->high_seconds / best->low_seconds, last);
}

void Standings::settle() {
  update_limit(fitting_);
  update_limit(risky_);
}

void Standings::add(const NodeOutcome& outcome) {
  for (const auto& [group, candidate] : outcome.fitting) {
    fitting_.add(group, candidate);
  }
  for (const auto& [group, candidate] : outcome.risky) {
    risky_.add(group, candidate);
  }
  for (const Candidate& candidate : outcome.fitting_front) {
    fitting_.front.insert(candidate);
  }
  for (const Candidate& candidate : outcome.risky_front) {
    risky_.front.insert(candidate);
  }
  for (const auto& [group, miss] : outcome.misses) {
    const auto [found, fresh] = misses_.try_emplace(group, miss);
    if (!fresh && better(miss, found->second)) {
      found->second = miss;
    }
  }
}

const Tier* Standings::tier() const {
  return fitting_.best() != nullptr ? &fitting_ : risky_.best() != nullptr ? &risky_ : nullptr;
}

std::vector<Candidate> Standings::misses(std::size_t most) const {
  std::vector<Candidate> found;
  for (const auto& [group, miss] : misses_) {
    found.push_back(miss);
  }
  std::sort(found.begin(), found.end(), better);
  found.resize(std::min(found.size(), most));
  return found;
}

}  // namespace trireme::planner
