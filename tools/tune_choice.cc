#include "tools/tune_choice.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/rules.h"

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

bool is_asked_for(const planner::SearchOptions& search, const planner::Plan& plan) {
  return (!search.fixed.recompute || *search.fixed.recompute == plan.recompute) &&
         std::all_of(search.constraints.begin(), search.constraints.end(),
                     [&](const planner::Constraint& wish) { return satisfies(wish, plan); });
}

std::vector<planner::Plan> variants_of(const planner::Job& job, const planner::Plan& plan) {
  constexpr std::int64_t kFarthest = 4;
  std::vector<planner::Plan> variants;
  for (std::int64_t size = 1; size <= kFarthest * plan.micro_batch; size *= 2) {
    for (const planner::Recompute recompute :
         {planner::Recompute::kNone, planner::Recompute::kFull}) {
      const std::int64_t together = size * plan.data_parallel();
      if (size * kFarthest < plan.micro_batch || job.global_batch % together != 0) {
        continue;
      }
      planner::Plan& variant = variants.emplace_back(plan);
      variant.micro_batch = size;
      variant.micro_batches = job.global_batch / together;
      variant.recompute = recompute;
      variant.recompute_layers = -1;
    }
  }
  return variants;
}

}  // namespace

void add_variants(const planner::Job& job, const planner::SearchOptions& search,
                  planner::SearchResult& found) {
  constexpr std::size_t kPlans = 4;
  std::vector<planner::Plan> plans;
  if (found.best) {
    plans.push_back(found.best->plan);
  }
  for (const planner::Estimate& one : found.alternatives) {
    if (plans.size() < kPlans) {
      plans.push_back(one.plan);
    }
  }
  planner::Estimator estimator(job);
  const planner::Acceptance accepts = search.accepts ? search.accepts(job) : planner::Acceptance{};
  for (const planner::Plan& plan : plans) {
    for (const planner::Plan& variant : variants_of(job, plan)) {
      const bool accepted = accepts.takes(variant);
      if (accepted && is_asked_for(search, variant) && !planner::check_plan(job, variant)) {
        estimator.estimate(variant, found.alternatives.emplace_back());
      }
    }
  }
}

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
