// Which layout to start next: the one whose measurement promises most.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/search.h"
#include "tools/tune_state.h"

namespace trireme::tools {

// Seconds by which a step is expected to beat `best`: its logarithm is taken as normal about
// `predicted`, with nine in ten between `low` and `high` (expected improvement, Mockus 1975).
// `best` infinite: not defined.
double expected_gain(double best, double predicted, double low, double high);

struct TuneChoice {
  planner::Estimate estimate;
  double gain_share = 1;  // expected gain over the best measured step; 1 where nothing was measured
};

// Search keeps one plan of each set of degrees; measured, another micro-batch or recompute of the
// same degrees may be the faster one. Adds those of the best plans (micro-batches up to four times
// smaller and larger, no recompute and full), where they break no rule and hold what `search` asks.
void add_variants(const planner::Job& job, const planner::SearchOptions& search,
                  planner::SearchResult& found);

// Of the search's layouts that may fit and were not started: the fastest where nothing was
// measured, else the one of the largest expected gain. Nothing: all were started.
std::optional<TuneChoice> choose_next(const planner::SearchResult& found,
                                      const std::vector<TuneRun>& runs);

// The fastest that ran; nothing where none did.
const TuneRun* fastest_run(const std::vector<TuneRun>& runs);

}  // namespace trireme::tools
