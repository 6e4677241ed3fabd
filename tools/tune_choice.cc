#include "tools/tune_choice.h"

#include <algorithm>
#include <cmath>

namespace trireme::tools {
namespace {

double normal_below(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

bool was_started(const std::vector<TuneRun>& runs, const planner::Plan& plan) {
  const std::string layout = planner::short_form(plan);
  return std::any_of(runs.begin(), runs.end(),
                     [&](const TuneRun& run) { return run.layout == layout; });
}

}  // namespace

double expected_gain(double best, double predicted, double low, double high) {
  constexpr double kNineInTen = 2 * 1.6449;
  constexpr double kLeastSpread = 1e-6;
  const double spread = std::max(kLeastSpread, std::log(high / low) / kNineInTen);
  const double z = std::log(best / predicted) / spread;
  const double mean = predicted * std::exp(0.5 * spread * spread);
  return std::max(0.0, best * normal_below(z) - mean * normal_below(z - spread));
}

const TuneRun* fastest_run(const std::vector<TuneRun>& runs) {
  const TuneRun* best = nullptr;
  for (const TuneRun& run : runs) {
    if (run.measured_seconds &&
        (best == nullptr || *run.measured_seconds < *best->measured_seconds)) {
      best = &run;
    }
  }
  return best;
}

std::optional<TuneChoice> choose_next(const planner::SearchResult& found,
                                      const std::vector<TuneRun>& runs) {
  std::vector<planner::Estimate> layouts;
  if (found.best) {
    layouts.push_back(*found.best);
  }
  if (found.at_risk) {
    layouts.push_back(*found.at_risk);
  }
  layouts.insert(layouts.end(), found.alternatives.begin(), found.alternatives.end());
  const TuneRun* best = fastest_run(runs);
  std::optional<TuneChoice> choice;
  for (const planner::Estimate& estimate : layouts) {
    if (estimate.memory.fit == planner::Fit::kNo || was_started(runs, estimate.plan)) {
      continue;
    }
    const auto& time = estimate.time;
    const double share = best == nullptr ? 1
                                         : expected_gain(*best->measured_seconds, time.step_seconds,
                                                         time.low_seconds, time.high_seconds) /
                                               *best->measured_seconds;
    if (!choice || share > choice->gain_share) {
      choice = TuneChoice{estimate, share};
    }
  }
  return choice;
}

}  // namespace trireme::tools
