// `trireme validate`: measurements beside this model's predictions, row by row and by source.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "planner/calibrate/fit.h"
#include "planner/calibrate/validation.h"
#include "tools/commands.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/row_simulation.h"
#include "tools/table.h"
#include "topologies/profile.h"

namespace trireme::tools {
namespace {

using planner::SourceErrors;
using planner::ValidatedRow;

struct ValidateArguments {
  std::string rows;
  std::string calibration;
  bool json = false;
  bool all = false;
  bool simulate = false;
};

Json row_json(const ValidatedRow& row) {
  return {{"id", row.id},
          {"measured_seconds", optional_json(row.measured_seconds)},
          {"predicted_seconds", optional_json(row.predicted_seconds)},
          {"measured_memory_gib", optional_json(row.measured_memory_gib)},
          {"predicted_memory_gib", optional_json(row.predicted_memory_gib)},
          {"memory_kind", row.memory_kind.empty() ? Json(nullptr) : Json(row.memory_kind)},
          {"low_seconds", optional_json(row.low_seconds)},
          {"high_seconds", optional_json(row.high_seconds)},
          {"fit", row.fit ? Json(std::string(to_string(*row.fit))) : Json(nullptr)},
          {"behaviour", row.behaviour.empty() ? Json(nullptr) : Json(row.behaviour)},
          {"assumed", row.assumed},
          {"skipped", row.skipped.empty() ? Json(nullptr) : Json(row.skipped)},
          {"source", row.source}};
}

Json source_json(const SourceErrors& errors) {
  const auto share = [](int count, double value) {
    return count > 0 ? Json(value) : Json(nullptr);
  };
  return {{"source", errors.source},
          {"rows", errors.rows},
          {"skipped", errors.skipped},
          {"compared", errors.compared},
          {"mean_abs_error", share(errors.compared, errors.mean_absolute)},
          {"mean_error", share(errors.compared, errors.mean)},
          {"worst", share(errors.compared, errors.worst)},
          {"memory_mean_abs_error", share(errors.memory_compared, errors.memory_mean_absolute)},
          {"memory_worst", share(errors.memory_compared, errors.memory_worst)}};
}

std::string percent(int count, double share, bool sign) {
  if (count == 0) {
    return "-";
  }
  return sign ? fmt::format("{:+.1f} %", 100 * share) : fmt::format("{:.1f} %", 100 * share);
}

void print_rows(const Console& console, const std::vector<ValidatedRow>& rows) {
  Table table{.head = {"row", "fit", "measured", "predicted", "error", "90 % interval",
                       "memory GiB", "predicted", "error"},
              .rows = {},
              .text_columns = 2};
  for (const ValidatedRow& row : rows) {
    if (!row.skipped.empty()) {
      table.rows.push_back({row.id, "skipped: " + row.skipped, "", "", "", "", "", "", ""});
      continue;
    }
    const bool both = row.measured_seconds && row.predicted_seconds;
    const bool has_memory = row.measured_memory_gib && row.predicted_memory_gib;
    table.rows.push_back(
        {row.id, row.fit ? std::string(to_string(*row.fit)) : "-",
         row.measured_seconds ? duration_text(*row.measured_seconds) : "-",
         duration_text(row.predicted_seconds.value_or(0)),
         both ? percent(1, *row.predicted_seconds / *row.measured_seconds - 1, true) : "-",
         fmt::format("{} to {}", duration_text(row.low_seconds.value_or(0)),
                     duration_text(row.high_seconds.value_or(0))),
         row.measured_memory_gib ? fmt::format("{:.1f}", *row.measured_memory_gib) : "-",
         row.predicted_memory_gib ? fmt::format("{:.1f}", *row.predicted_memory_gib) : "-",
         has_memory ? percent(1, *row.predicted_memory_gib / *row.measured_memory_gib - 1, true)
                    : "-"});
  }
  print_table(console, table);
}

// The closed form beside the simulator, row by row; of rows that agree, how many.
void print_simulations(const Console& console, const std::vector<ValidatedRow>& rows,
                       const std::vector<RowSimulation>& simulations) {
  Table table{.head = {"row", "simulated over closed form: cause seen in the trace", "measured",
                       "closed form", "simulated", "difference"},
              .rows = {},
              .text_columns = 2};
  std::size_t agree = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowSimulation& simulated = simulations[i];
    if (!rows[i].skipped.empty()) {
      continue;
    }
    const std::string measured =
        rows[i].measured_seconds ? duration_text(*rows[i].measured_seconds) : "-";
    if (!simulated.not_simulated.empty()) {
      table.rows.push_back({rows[i].id, "not simulated: " + simulated.not_simulated, measured,
                            duration_text(simulated.estimated_seconds), "-", "-"});
    } else if (std::abs(simulated.difference()) <= kAgreement) {
      ++agree;
    } else {
      table.rows.push_back(
          {rows[i].id, causes_text(simulated), measured, duration_text(simulated.estimated_seconds),
           duration_text(simulated.seconds), percent(1, simulated.difference(), true)});
    }
  }
  if (!table.rows.empty()) {
    print_table(console, table);
  }
  fmt::print(console.out, "{} rows within {:.0f} % of the closed form\n\n", agree,
             100 * kAgreement);
}

// Simulates every row that is predicted; the simulated step becomes the prediction.
std::vector<RowSimulation> simulate_rows(const Console& console,
                                         const std::vector<planner::ValidationCase>& cases,
                                         const topologies::Profile& profile,
                                         std::vector<ValidatedRow>& rows) {
  Progress progress(console, "simulating");
  std::vector<RowSimulation> simulations(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    progress.show(static_cast<double>(i) / static_cast<double>(rows.size()));
    if (!rows[i].skipped.empty()) {
      continue;
    }
    simulations[i] = simulate_row(cases[i], profile);
    if (simulations[i].not_simulated.empty()) {
      const double ratio = simulations[i].seconds / simulations[i].estimated_seconds;
      rows[i].predicted_seconds = simulations[i].seconds;
      rows[i].low_seconds = rows[i].low_seconds.value_or(0) * ratio;
      rows[i].high_seconds = rows[i].high_seconds.value_or(0) * ratio;
    }
  }
  return simulations;
}

void print_source_errors(const Console& console, const std::vector<SourceErrors>& sources,
                         bool shipped) {
  Table table{.head = {"source", "rows", "skipped", "compared", "mean |error|", "mean error",
                       "worst", "memory mean |error|", "worst"},
              .rows = {},
              .text_columns = 1};
  for (const SourceErrors& errors : sources) {
    table.rows.push_back(
        {errors.source + (shipped && planner::is_fitted_source(errors.source) ? " *" : ""),
         std::to_string(errors.rows), std::to_string(errors.skipped),
         std::to_string(errors.compared), percent(errors.compared, errors.mean_absolute, false),
         percent(errors.compared, errors.mean, true), percent(errors.compared, errors.worst, true),
         percent(errors.memory_compared, errors.memory_mean_absolute, false),
         percent(errors.memory_compared, errors.memory_worst, true)});
  }
  print_table(console, table);
}

int run(const ValidateArguments& options, Console& console) {
  const topologies::Profile profile = options.calibration.empty()
                                          ? topologies::shipped_profile()
                                          : topologies::load_profile(options.calibration);
  const std::vector<planner::PublishedFile> files =
      options.rows.empty() ? planner::shipped_rows() : planner::read_published(options.rows);
  const std::vector<planner::ValidationCase> cases = planner::validation_cases(files, profile);
  std::vector<ValidatedRow> rows;
  rows.reserve(cases.size());
  for (const planner::ValidationCase& one : cases) {
    rows.push_back(planner::validate_case(one, profile));
  }
  std::vector<RowSimulation> simulations;
  if (options.simulate) {
    simulations = simulate_rows(console, cases, profile, rows);
  }
  const std::vector<SourceErrors> sources =
      planner::source_errors(cases, rows, planner::is_measured_row);
  if (options.json) {
    Json row_list = Json::array();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      row_list.push_back(row_json(rows[i]));
      if (options.simulate && rows[i].skipped.empty()) {
        row_list.back().update(row_simulation_json(simulations[i]));
      }
    }
    Json source_list = Json::array();
    for (const SourceErrors& errors : sources) {
      source_list.push_back(source_json(errors));
    }
    print_json(console, "validate", {{"rows", row_list}, {"sources", source_list}});
    return kDone;
  }
  if (options.all || !options.rows.empty()) {
    print_rows(console, rows);
  }
  if (options.simulate) {
    print_simulations(console, rows, simulations);
  }
  print_source_errors(console, sources, options.rows.empty());
  if (!console.quiet) {
    for (const planner::PublishedFile& file : files) {
      if (!file.unknown_keys.empty()) {
        fmt::print(console.err, "trireme: {}: keys that are not known and not read: {}\n",
                   file.name, fmt::join(file.unknown_keys, ", "));
      }
    }
  }
  return kDone;
}

}  // namespace

void add_validate_command(Command& app, Program& program) {
  auto options = std::make_shared<ValidateArguments>();
  Command* command = add_command(app, program, "validate",
                                 "measurements beside this model's predictions, by row and source",
                                 "trireme validate --rows measurements.json");
  command->add_option("--rows", options->rows,
                      "a file or folder in the row format; else the rows that ship, of which the "
                      "sources marked * were fitted");
  command->add_option("--calibration", options->calibration, "a profile of `trireme calibrate`");
  command->add_flag("--all", options->all, "every row, not the sources alone");
  command->add_flag("--simulate", options->simulate,
                    "predict with the simulator; where it and the closed form differ by more than "
                    "3 %, what in the trace makes them differ");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
