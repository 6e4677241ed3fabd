// Fits topologies/fitted.json on published rows, so that every shipped constant can be made again:
//   trireme_fit --rows planner/calibrate/fit_rows --profile topologies/fitted.json --write out.json
// and scores it: errors by source, with each source left out of every fit, and the 90 % intervals.
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
  std::string rows, profile, write, group, detail;
  int evaluations = 400;
  bool leave_out = false, intervals = false;
};

void fit(const Options& options, const std::vector<ValidationCase>& cases,
         const std::string& left_out, bool chatty, topologies::Profile& profile) {
  for (const planner::FitGroup& group : planner::fit_groups()) {
    if (!options.group.empty() && group.name.find(options.group) == std::string::npos) {
      continue;
    }
    const planner::FitReport report =
        planner::fit_group(group, cases, left_out, options.evaluations, profile);
    if (!chatty) {
      continue;
    }
    fmt::print("{}: {} rows, loss {:.4f} -> {:.4f}\n", group.name, report.rows, report.loss_before,
               report.loss_after);
    for (const planner::FitConstant& constant : group.constants) {
      const std::string& entry = constant.entries.front();
      fmt::print("   {} {} = {:.4g}\n", entry, constant.name,
                 constant.owner == planner::FitConstant::Owner::kGpu
                     ? profile.gpus[entry].constants[constant.name]
                     : profile.frameworks[entry][constant.name]);
    }
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

// Each source's error when none of its rows entered any fit.
void leave_each_out(const Options& options, const std::vector<ValidationCase>& cases,
                    const topologies::Profile& profile) {
  std::vector<std::string> sources;
  for (const planner::FitGroup& group : planner::fit_groups()) {
    for (const planner::FitSource& source : group.sources) {
      if (std::find(sources.begin(), sources.end(), source.source) == sources.end()) {
        sources.push_back(source.source);
      }
    }
  }
  for (const std::string& source : sources) {
    topologies::Profile without = profile;
    fit(options, cases, source, false, without);
    print_sources(fmt::format("{} left out of every fit", source).c_str(), cases,
                  predict(cases, without), [&](const ValidationCase& one) {
                    return one.row.source == source && planner::is_gated_row(one);
                  });
  }
}

// 5 and 95 % of measured over predicted on rows that no fit saw, by behaviour; of all for the rest.
void set_intervals(const std::vector<ValidationCase>& cases, const std::vector<ValidatedRow>& rows,
                   topologies::Profile& profile) {
  constexpr std::size_t kEnough = 12;
  std::map<std::string, std::vector<double>> ratios;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (planner::is_measured_row(cases[i]) && !planner::is_fit_row(cases[i].row) &&
        rows[i].measured_seconds && rows[i].predicted_seconds &&
        cases[i].row.behaviour != "other" &&
        rows[i].source != "megatron_lm_golden") {  // deterministic mode of tiny models
      const double ratio = *rows[i].measured_seconds / *rows[i].predicted_seconds;
      ratios[planner::behaviour_name(cases[i].found.job.framework)].push_back(ratio);
      ratios["other"].push_back(ratio);
    }
  }
  profile.intervals.clear();
  for (auto& [name, list] : ratios) {
    if (list.size() < kEnough) {
      continue;
    }
    std::sort(list.begin(), list.end());
    const auto at = [&list = list](double share) {
      return list[static_cast<std::size_t>(
          std::llround(share * static_cast<double>(list.size() - 1)))];
    };
    profile.intervals[name] = {{"low", at(0.05)}, {"high", at(0.95)}};
    fmt::print("{:20} {:4} rows  {:.3f} to {:.3f}\n", name, list.size(), at(0.05), at(0.95));
  }
}

int run(const Options& options) {
  topologies::Profile profile = options.profile.empty() ? topologies::shipped_profile()
                                                        : topologies::load_profile(options.profile);
  const std::vector<ValidationCase> cases =
      planner::validation_cases(planner::read_published(options.rows), profile);
  if (options.leave_out) {
    leave_each_out(options, cases, profile);
    return 0;
  }
  if (!options.write.empty() && !options.intervals) {
    fit(options, cases, "", true, profile);
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
  if (options.intervals) {
    set_intervals(cases, rows, profile);
  }
  if (!options.write.empty()) {
    write_fitted(options.profile, options.write, profile);
  }
  return 0;
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app("Fits and scores the shipped constants on published rows");
  app.add_option("--rows", options.rows, "file or folder in the row format")->required();
  app.add_option("--profile", options.profile, "profile to start from (default: the shipped one)");
  app.add_option("--write", options.write, "fits, and writes the profile here");
  app.add_option("--group", options.group, "only groups whose name holds this");
  app.add_option("--evaluations", options.evaluations, "of the loss, a group");
  app.add_option("--detail", options.detail, "prints every row of this source");
  app.add_flag("--leave-out", options.leave_out, "errors with each source left out of every fit");
  app.add_flag("--intervals", options.intervals, "90 % intervals from the held-apart rows");
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
