// Fits topologies/fitted.json on published rows, so that every shipped constant can be made again:
//   trireme_fit --rows planner/calibrate/fit_rows --profile topologies/fitted.json --write out.json
// with the standard error of each constant; --leave-out adds errors by source with that source left
// out of the fit and the 90 % intervals from those.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>

#include "core/error.h"
#include "planner/calibrate/fit.h"
#include "planner/calibrate/validation.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/cost/time.h"
#include "tools/fit/profile_file.h"

namespace trireme::tools {
namespace {

using planner::ValidatedRow;
using planner::ValidationCase;

struct Options {
  std::vector<std::string> rows;
  std::string profile, write, detail;
  bool leave_out = false;
};

void print_fit(const planner::FitReport& report) {
  const std::vector<planner::FitConstant> constants = planner::fit_constants();
  fmt::print("{} rows, loss {:.1f} -> {:.1f}\n", report.rows, report.loss_before,
             report.loss_after);
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const planner::FitConstant& constant = constants[i];
    fmt::print("{:44} {:32} {:10.4g} +- {:4.1f} %  prior {:.4g} +- {:.0f} %",
               fmt::join(constant.entries, " "), constant.name, report.values[i],
               100 * report.standard_errors[i], constant.prior, 100 * constant.width);
    for (std::size_t j = 0; j < constants.size(); ++j) {
      if (j != i && std::abs(report.correlation[i][j]) > 0.5) {
        fmt::print("  {:+.2f} with {} of {}", report.correlation[i][j], constants[j].name,
                   constants[j].entries.front());
      }
    }
    fmt::print("\n");
  }
}

std::vector<ValidatedRow> predict(const std::vector<ValidationCase>& cases,
                                  const topologies::Profile& profile) {
  std::vector<ValidatedRow> rows;
  rows.reserve(cases.size());
  for (const ValidationCase& one : cases) {
    rows.push_back(planner::validate_case(one, profile));
  }
  return rows;
}

void print_sources(const char* what, const std::vector<ValidationCase>& cases,
                   const std::vector<ValidatedRow>& rows,
                   const std::function<bool(const ValidationCase&)>& counts) {
  fmt::print("--- {}\n", what);
  for (const planner::SourceErrors& errors : planner::source_errors(cases, rows, counts)) {
    if (errors.compared > 0) {
      fmt::print("{:26} {:4} rows  mean |error| {:6.2f} %  mean {:+6.2f} %  worst {:+7.2f} %\n",
                 errors.source, errors.compared, errors.mean_absolute * 100, errors.mean * 100,
                 errors.worst * 100);
    }
  }
}

void print_detail(const std::vector<ValidationCase>& cases, const topologies::Profile& profile,
                  const std::string& source) {
  for (const ValidationCase& one : cases) {
    if (one.row.source != source) {
      continue;
    }
    if (!one.found.skipped.empty()) {
      fmt::print("{} skipped: {}\n", one.row.id, one.found.skipped);
      continue;
    }
    planner::Job job = one.found.job;
    job.profile = profile;
    planner::TimeEstimate estimate;
    planner::TimeModel(job).estimate(one.found.plan, estimate);
    const planner::TimeItems& t = estimate.exposed;
    const double measured = one.measured_seconds.value_or(0);
    fmt::print(
        "{} {} {} gpus {} {} m{} {} | measured {:.4g} predicted {:.4g} error {:+.1f} % | compute "
        "{:.3g} tensor {:.3g} context {:.3g} expert {:.3g} bubble {:.3g} p2p {:.3g} data {:.3g} "
        "optimizer {:.3g} other {:.3g}\n",
        one.row.id, one.row.model, one.row.gpu, job.cluster.gpus,
        planner::short_form(one.found.plan), one.found.plan.micro_batches,
        planner::to_string(one.found.plan.recompute), measured, estimate.step_seconds,
        measured > 0 ? 100 * (estimate.step_seconds / measured - 1) : 0, t.compute,
        t.tensor_parallel, t.context_parallel, t.expert_parallel, t.pipeline_bubble, t.pipeline_p2p,
        t.data_parallel, t.optimizer, t.other);
  }
}

// Ratios of measured to predicted of rows whose source no fit saw, by behaviour and by source.
using Ratios = std::map<std::string, std::map<std::string, std::vector<double>>>;

void add_ratios(const std::vector<ValidationCase>& cases, const std::vector<ValidatedRow>& rows,
                const std::function<bool(const std::string&)>& wanted, Ratios& ratios) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (wanted(rows[i].source) && planner::is_measured_row(cases[i]) && rows[i].measured_seconds &&
        rows[i].predicted_seconds) {
      const double ratio = *rows[i].measured_seconds / *rows[i].predicted_seconds;
      const planner::Framework& framework = cases[i].found.job.framework;
      ratios[planner::behaviour_name(framework)][rows[i].source].push_back(ratio);
      ratios["other"][rows[i].source].push_back(ratio);
    }
  }
}

// Sources count alike, however many rows they have: rows of one share its machine and its mistakes.
// A source that is yet unseen lies further out than those that are: the tails are narrower than 5
// %.
constexpr double kTail = 0.03;

// The tails of the ratios but those of `left_out`.
std::pair<double, double> quantiles(const std::map<std::string, std::vector<double>>& by_source,
                                    const std::string& left_out) {
  std::vector<std::pair<double, double>> all;  // ratio, weight
  for (const auto& [source, ratios] : by_source) {
    for (const double ratio : ratios) {
      if (source != left_out) {
        all.emplace_back(ratio, 1.0 / static_cast<double>(ratios.size()));
      }
    }
  }
  if (all.empty()) {
    return {0.8, 1.25};
  }
  std::sort(all.begin(), all.end());
  double whole = 0;
  for (const auto& [ratio, weight] : all) {
    whole += weight;
  }
  const auto at = [&](double share) {
    double sum = 0;
    for (const auto& [ratio, weight] : all) {
      sum += weight;
      if (sum >= share * whole) {
        return ratio;
      }
    }
    return all.back().first;
  };
  return {at(kTail), at(1 - kTail)};
}

// A behaviour has an interval of its own where enough sources speak of it.
constexpr std::size_t kEnoughSources = 5;

void set_intervals(const Ratios& ratios, topologies::Profile& profile) {
  const std::map<std::string, double> calibrated = profile.intervals["calibrated"];
  profile.intervals = {{"calibrated", calibrated}};
  int inside = 0;
  int all = 0;
  for (const auto& [name, by_source] : ratios) {
    if (name != "other" && by_source.size() < kEnoughSources) {
      continue;
    }
    const auto [low, high] = quantiles(by_source, "");
    profile.intervals[name] = {{"low", low}, {"high", high}};
    fmt::print("{:20} {:2} sources  {:.3f} to {:.3f}\n", name, by_source.size(), low, high);
  }
  for (const auto& [name, by_source] : ratios) {
    for (const auto& [source, list] : by_source) {
      const auto [low, high] =
          quantiles(by_source.size() < kEnoughSources ? ratios.at("other") : by_source, source);
      if (name != "other") {
        const int before = inside;
        all += static_cast<int>(list.size());
        inside += static_cast<int>(std::count_if(
            list.begin(), list.end(),
            [low = low, high = high](double ratio) { return ratio >= low && ratio <= high; }));
        fmt::print("  {:16} {:24} {:3} of {:3}\n", name, source, inside - before, list.size());
      }
    }
  }
  fmt::print("{} of {} rows ({:.0f} %) lie in the interval of the other sources\n", inside, all,
             100.0 * inside / std::max(1, all));
}

// Each source's error when none of its rows entered the fit; the intervals come from these.
void leave_each_out(const std::vector<ValidationCase>& cases, topologies::Profile& profile) {
  Ratios ratios;
  std::vector<std::string> fitted;
  for (const planner::FitSource& source : planner::fit_sources()) {
    topologies::Profile without = profile;
    planner::fit_constants_to_rows(cases, source.source, without);
    const std::vector<ValidatedRow> rows = predict(cases, without);
    print_sources(fmt::format("{} left out", source.source).c_str(), cases, rows,
                  [&](const ValidationCase& one) {
                    return one.row.source == source.source && planner::is_gated_row(one);
                  });
    add_ratios(
        cases, rows, [&](const std::string& name) { return name == source.source; }, ratios);
    fitted.push_back(source.source);
  }
  add_ratios(
      cases, predict(cases, profile),
      [&](const std::string& name) {
        return std::find(fitted.begin(), fitted.end(), name) == fitted.end();
      },
      ratios);
  set_intervals(ratios, profile);
}

int run(const Options& options) {
  topologies::Profile profile = options.profile.empty() ? topologies::shipped_profile()
                                                        : topologies::load_profile(options.profile);
  std::vector<planner::PublishedFile> files;
  for (const std::string& rows : options.rows) {
    const std::vector<planner::PublishedFile> more = planner::read_published(rows);
    files.insert(files.end(), more.begin(), more.end());
  }
  const std::vector<ValidationCase> cases = planner::validation_cases(files, profile);
  if (!options.write.empty()) {
    print_fit(planner::fit_constants_to_rows(cases, "", profile));
  }
  if (options.leave_out) {
    leave_each_out(cases, profile);
  }
  const std::vector<ValidatedRow> rows = predict(cases, profile);
  if (!options.detail.empty()) {
    print_detail(cases, profile, options.detail);
  }
  print_sources("dense rows in 16 bit, 1F1B or interleaved", cases, rows, planner::is_gated_row);
  print_sources("of them, held apart from the fit", cases, rows, [](const ValidationCase& one) {
    return planner::is_gated_row(one) && !planner::is_fit_row(one.row);
  });
  print_sources("other rows", cases, rows, [](const ValidationCase& one) {
    return planner::is_measured_row(one) && !planner::is_gated_row(one);
  });
  if (!options.write.empty()) {
    write_fitted(options.profile, options.write, profile);
  }
  return 0;
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app("Fits and scores the shipped constants on published rows");
  app.add_option("--rows", options.rows, "files or folders in the row format")->required();
  app.add_option("--profile", options.profile, "profile to start from (default: the shipped one)");
  app.add_option("--write", options.write, "fits, and writes the profile here");
  app.add_option("--detail", options.detail, "prints every row of this source");
  app.add_flag("--leave-out", options.leave_out,
               "errors with each source left out of the fit, and the 90 % intervals that follow");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}

}  // namespace
}  // namespace trireme::tools

int main(int argc, char** argv) {
  try {
    return trireme::tools::parse_and_run(argc, argv);
  } catch (const std::exception& error) {  // an Error, or a profile that cannot be written
    std::fprintf(stderr, "trireme_fit: %s\n", error.what());
    return 2;
  }
}
