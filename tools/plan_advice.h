// What `plan` says where a search alone leaves a person without an answer: what would fit, why
// nothing is legal, what other programs would reach.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"
#include "tools/options.h"

namespace trireme::tools {

struct Advice {
  std::string change;                      // "--seq 2048", "16 GPUs", "--offload optimizer"
  std::string detail;                      // the best layout then, its memory and step
  planner::Fit fit = planner::Fit::kFits;  // of that layout
};

// Changes under each of which something fits, each by itself. Searches once or a few times a
// change. `misses` are the layouts nearest to fitting, `given` as switches_of takes them.
std::vector<Advice> what_would_fit(const planner::Job& job, const planner::SearchOptions& search,
                                   const std::vector<planner::Estimate>& misses,
                                   const std::vector<std::string>& given);

// Why no layout is legal: each wish that cannot be met alone, or that they do not go together.
std::vector<std::string> why_empty(const planner::Job& job, const planner::SearchOptions& search);

// A batch that the GPUs do not divide, a sequence of an odd length: what the nearest ones that do
// would take, where that is worth it.
std::vector<std::string> near_sizes(const planner::Job& job, const planner::SearchOptions& search,
                                    double step_seconds);

// What `plan --framework` would put first for the same job, under programs that people run.
struct Elsewhere {
  std::string program;  // "torchtitan"
  std::string framework;
  std::string layout;  // empty: none, and why
  double step_seconds = 0;
  std::string reason;  // "nothing fits", or what it has not that the job asks for
};
// `asked` is the job of `options` with its batch; `switches`, `batch_assumed`: as `plan` takes
// them.
std::vector<Elsewhere> elsewhere(const JobOptions& options, const planner::Job& asked,
                                 planner::SearchOptions search, bool switches, bool batch_assumed);

}  // namespace trireme::tools
