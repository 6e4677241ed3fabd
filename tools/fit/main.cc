// Fits topologies/fitted.json on published rows, so that every shipped constant can be made again:
//   trireme_fit --rows planner/calibrate/rows --profile topologies/fitted.json --write out.json
// with the standard error of each constant; --leave-out adds errors by source with that source left
// out of the fit and the 90 % intervals from those.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>

#include "core/error.h"
#include "planner/calibrate/fit.h"
#include "planner/calibrate/left_out.h"
#include "planner/calibrate/validation.h"
#include "planner/cost/time.h"
#include "tools/fit/finetune_split.h"
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

// Each source's error when none of its rows entered the fit; the intervals come from these.
void leave_each_out(const std::vector<ValidationCase>& cases, topologies::Profile& profile) {
  const std::vector<ValidatedRow> rows = planner::validate_left_out(cases, profile);
  print_sources("left out of the fit, or never in it: dense rows in 16 bit", cases, rows,
                planner::is_gated_row);
  const planner::LeftOutIntervals found = planner::left_out_intervals(cases, rows);
  // What kinds of jobs add and machines with a profile take away is not of the rows above.
  for (const planner::LeftOutInterval& one : found.intervals) {
    profile.intervals[one.behaviour] = {{"low", one.low}, {"high", one.high}};
    fmt::print("{:20} {:2} sources  {:.3f} to {:.3f}\n", one.behaviour, one.sources, one.low,
               one.high);
  }
  for (const planner::Coverage& one : found.coverage) {
    fmt::print("  {:16} {:24} {:3} of {:3}\n", one.behaviour, one.source, one.inside, one.rows);
  }
  fmt::print("{:.1f} % of rows lie in the interval of the other sources\n",
             100 * found.share_inside());
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
  print_sources("in-sample: dense rows in 16 bit, 1F1B or interleaved", cases, rows,
                [](const ValidationCase& one) {
                  return planner::is_gated_row(one) && planner::is_fitted_source(one.row.source);
                });
  print_sources("never fitted: dense rows in 16 bit", cases, rows, [](const ValidationCase& one) {
    return planner::is_gated_row(one) && !planner::is_fitted_source(one.row.source);
  });
  print_sources("fp8, no experts", cases, rows, [](const ValidationCase& one) {
    return planner::is_measured_row(one) && !one.found.job.model.moe &&
           one.found.job.precision == topologies::Precision::kFp8;
  });
  print_sources("other rows", cases, rows, [](const ValidationCase& one) {
    return planner::is_measured_row(one) && !planner::is_gated_row(one);
  });
  print_finetune_split(cases, rows);
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
