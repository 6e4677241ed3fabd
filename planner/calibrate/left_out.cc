#include "planner/calibrate/left_out.h"

#include <algorithm>
#include <map>

#include "planner/calibrate/fit.h"
#include "planner/cost/behaviour_fit.h"

namespace trireme::planner {
namespace {

// Ratios of measured to predicted by source.
using Ratios = std::map<std::string, std::vector<double>>;

// A source that is yet unseen lies further out than those that are: the tails are narrower than 5
// %.
constexpr double kTail = 0.03;
// A behaviour has an interval of its own where enough sources speak of it.
constexpr std::size_t kEnoughSources = 5;

// The tails of the ratios but those of `left_out`. Sources count alike, however many rows they
// have: rows of one share its machine and its mistakes.
LeftOutInterval tails(const std::string& behaviour, const Ratios& by_source,
                      const std::string& left_out) {
  std::vector<std::pair<double, double>> all;  // ratio, weight
  double whole = 0;
  for (const auto& [source, ratios] : by_source) {
    for (const double ratio : source != left_out ? ratios : std::vector<double>()) {
      all.emplace_back(ratio, 1.0 / static_cast<double>(ratios.size()));
      whole += all.back().second;
    }
  }
  LeftOutInterval interval{behaviour, by_source.size(), 0.8, 1.25};
  std::ranges::sort(all);
  double sum = 0;
  for (const auto& [ratio, weight] : all) {
    if (sum < kTail * whole) {
      interval.low = ratio;
    }
    if (sum < (1 - kTail) * whole) {
      interval.high = ratio;
    }
    sum += weight;
  }
  return interval;
}

}  // namespace

std::vector<ValidatedRow> validate_left_out(const std::vector<ValidationCase>& cases,
                                            const topologies::Profile& fitted) {
  std::vector<ValidatedRow> rows(cases.size());
  const auto validate = [&](const std::string& source, const topologies::Profile& profile) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (source.empty() ? !is_fitted_source(cases[i].row.source) : cases[i].row.source == source) {
        rows[i] = validate_case(cases[i], profile);
      }
    }
  };
  validate("", fitted);
  for (const FitSource& source : fit_sources()) {
    topologies::Profile without = fitted;
    fit_constants_to_rows(cases, source.source, without);
    validate(source.source, without);
  }
  return rows;
}

double LeftOutIntervals::share_inside() const {
  int inside = 0;
  int all = 0;
  for (const Coverage& one : coverage) {
    inside += one.inside;
    all += one.rows;
  }
  return static_cast<double>(inside) / std::max(1, all);
}

LeftOutIntervals left_out_intervals(const std::vector<ValidationCase>& cases,
                                    const std::vector<ValidatedRow>& rows) {
  std::map<std::string, Ratios> ratios;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_measured_row(cases[i]) && rows[i].measured_seconds && rows[i].predicted_seconds) {
      const double ratio = *rows[i].measured_seconds / *rows[i].predicted_seconds;
      ratios[behaviour_name(cases[i].found.job.framework)][rows[i].source].push_back(ratio);
      ratios["other"][rows[i].source].push_back(ratio);
    }
  }
  LeftOutIntervals found;
  for (const auto& [behaviour, by_source] : ratios) {
    const bool own = by_source.size() >= kEnoughSources;
    if (own) {
      found.intervals.push_back(tails(behaviour, by_source, ""));
    }
    for (const auto& [source, list] : behaviour == "other" ? Ratios() : by_source) {
      const LeftOutInterval others = tails("", own ? by_source : ratios.at("other"), source);
      const auto inside = std::ranges::count_if(
          list, [&](double ratio) { return ratio >= others.low && ratio <= others.high; });
      found.coverage.push_back(
          {behaviour, source, static_cast<int>(inside), static_cast<int>(list.size())});
    }
  }
  return found;
}

}  // namespace trireme::planner
