// What `plan` says where a search alone leaves a person without an answer: what would fit, why
// nothing is legal, what other programs would reach.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace trireme::tools {

struct Advice {
  std::string change;                      // "--seq 2048", "16 GPUs", "--offload optimizer"
  std::string detail;                      // the best layout then, its memory and step
  planner::Fit fit = planner::Fit::kFits;  // of that layout
};

// Changes under each of which something fits, each by itself. Searches once or a few times a
// change. `misses` are the layouts nearest to fitting.
std::vector<Advice> what_would_fit(const planner::Job& job, const planner::SearchOptions& search,
                                   const std::vector<planner::Estimate>& misses);

// Why no layout is legal: each wish that cannot be met alone, or that they do not go together.
std::vector<std::string> why_empty(const planner::Job& job, const planner::SearchOptions& search);

// A batch that the GPUs do not divide, a sequence of an odd length: what the nearest ones that do
// would take, where that is worth it.
std::vector<std::string> near_sizes(const planner::Job& job, const planner::SearchOptions& search,
                                    double step_seconds);

// The fastest layout of the same job that a program which people run can be given, with the
// switches of `plan --framework`; of layouts that are not told apart that one puts the simplest
// first.
struct Elsewhere {
  std::string program;  // "torchtitan"
  std::string framework;
  std::string layout;  // empty: nothing fits
  double step_seconds = 0;
};
std::vector<Elsewhere> elsewhere(const planner::Job& job, const planner::SearchOptions& search);

}  // namespace trireme::tools
