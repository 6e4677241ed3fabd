// What `plan` does with a search's answer: judges layouts by simulation, ranks one that somebody
// names, writes all that was estimated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace trireme::tools {

// Simulates `count` layouts of different kinds (the fastest, others with more, fewer or no virtual
// stages, without a pipeline, without tensor parallelism, then the next sets of degrees) and puts
// them first, by what was simulated where time is the goal; what is at risk comes last. A layout
// that no step program can be written for keeps its closed form. Returns by row which were
// simulated.
std::vector<bool> refine(const planner::Job& job, std::int64_t count,
                         const planner::SearchOptions& search, planner::SearchResult& result);

// Where a layout stands among the best of every set of degrees.
struct Standing {
  planner::Estimate estimate;
  std::int64_t rank = 1, of = 1;  // sets of degrees that are faster, and one; all that fit, and it
  double ratio = 1;               // its step over the best
  std::string would_fit;          // with which settings, of one that does not
};
// A layout that leaves open how layers lie in its stages, where they cannot lie evenly, is judged
// with the best split. Throws Error when the layout breaks a rule.
// `given`: as switches_of takes them.
Standing standing_of(const planner::Job& job, planner::SearchOptions search,
                     const std::string& layout, const std::vector<std::string>& given);

// Throws Error when the file cannot be written.
void write_plan_csv(const std::string& path, const planner::SearchResult& result);

}  // namespace trireme::tools
