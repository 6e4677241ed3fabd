#include "core/trace.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme {
namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;

// Sorted, disjoint intervals that cover what the given ones cover.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (!result.empty() && interval.first <= result.back().second) {
      result.back().second = std::max(result.back().second, interval.second);
    } else {
      result.push_back(interval);
    }
  }
  return result;
}

std::int64_t length(const std::vector<Interval>& intervals) {
  std::int64_t total = 0;
  for (const Interval& interval : intervals) {
    total += interval.second - interval.first;
  }
  return total;
}

std::int64_t overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::int64_t total = 0;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const std::int64_t low = std::max(a[i].first, b[j].first);
    const std::int64_t high = std::min(a[i].second, b[j].second);
    total += std::max<std::int64_t>(0, high - low);
    if (a[i].second < b[j].second) {
      ++i;
    } else {
      ++j;
    }
  }
  return total;
}

}  // namespace

std::vector<RankActivity> activity_of(const StepProgram& program, const Trace& trace,
                                      std::uint32_t iteration) {
  struct Intervals {
    std::vector<Interval> compute, communication;
  };
  std::map<Rank, Intervals> by_rank;
  for (const OpTiming& timing : trace.timings) {
    if (timing.iteration != iteration) {
      continue;
    }
    const Op& op = program.roles[index_of(timing.role)].ops[index_of(timing.op)];
    const bool compute =
        std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind);
    Intervals& intervals = by_rank[timing.rank];
    (compute ? intervals.compute : intervals.communication)
        .emplace_back(timing.start.picoseconds, timing.end.picoseconds);
  }
  std::vector<RankActivity> result;
  for (auto& [rank, intervals] : by_rank) {
    const std::vector<Interval> compute = united(std::move(intervals.compute));
    const std::vector<Interval> communication = united(std::move(intervals.communication));
    const std::int64_t communicating = length(communication);
    result.push_back({rank, SimDuration(length(compute)), SimDuration(communicating),
                      SimDuration(communicating - overlap(compute, communication))});
  }
  return result;
}

}  // namespace trireme
