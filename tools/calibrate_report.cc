#include "tools/calibrate_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/report.h"
#include "tools/table.h"
#include "topologies/measured_collective.h"

namespace trireme::tools {
namespace {

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

// Every logged row with the profile's answer.
Json tables_json(const CalibrationReport& report, const topologies::Profile& profile) {
  Json tables = Json::array();
  for (std::size_t i = 0; i < report.tables.size(); ++i) {
    const planner::CollectiveMeasurement& one = report.measured[i];
    Json rows = Json::array();
    for (const planner::NcclLogRow& row : report.tables[i].rows) {
      const double seconds =
          topologies::collective_time(one.cluster, profile, one.collective, one.group,
                                      Bytes(row.bytes), topologies::CostFamily::kNccl, false)
              .time.value;
      const double bus = static_cast<double>(row.bytes) / seconds * 1e-9 *
                         topologies::bus_bandwidth_factor(one.collective, one.group.ranks);
      rows.push_back({{"bytes", row.bytes},
                      {"measured_seconds", row.seconds},
                      {"seconds", seconds},
                      {"measured_busbw_gbytes_per_second", row.bus_gbytes_per_second},
                      {"busbw_gbytes_per_second", bus}});
    }
    tables.push_back({{"op", std::string(topologies::to_string(one.collective))},
                      {"gpus", one.group.ranks},
                      {"source", one.source},
                      {"points", rows}});
  }
  return tables;
}

Json report_json(const CalibrationReport& report, const topologies::Profile& profile) {
  Json json = {{"profile", report.output}, {"name", profile.name}};
  json["fits"] = Json::array();
  for (const planner::FitLine& line : report.fits) {
    json["fits"].push_back(
        {{"what", line.what}, {"points", line.points}, {"median_abs_error", line.residual}});
  }
  json["collectives"] = Json::array();
  for (const planner::CollectiveFitReport& line : report.collectives) {
    json["collectives"].push_back({{"what", line.name},
                                   {"points", line.points},
                                   {"regimes_median_abs_error", line.regimes_error},
                                   {"model_median_abs_error_before", line.model_error_before},
                                   {"model_median_abs_error", line.model_error_after}});
  }
  json["tables"] = tables_json(report, profile);
  json["runs"] = Json::array();
  for (const planner::RunFitLine& run : report.runs.runs) {
    json["runs"].push_back({{"run", run.name},
                            {"measured_seconds", run.measured_seconds},
                            {"before_seconds", run.before_seconds},
                            {"after_seconds", run.after_seconds}});
  }
  json["corrections"] = Json::object();
  for (const auto& [category, correction] : profile.corrections) {
    json["corrections"][category] = {{"factor", correction.factor},
                                     {"runs", correction.runs},
                                     {"evidence", correction.evidence}};
  }
  json["interval"] = profile.interval ? Json{{"low", profile.interval->low},
                                             {"high", profile.interval->high},
                                             {"runs", profile.interval->runs}}
                                      : Json(nullptr);
  json["remarks"] = report.remarks;
  return json;
}

void print_fits(const Console& console, const CalibrationReport& report) {
  if (!report.fits.empty()) {
    Table table{.head = {"fitted", "points", "median error"}, .rows = {}};
    for (const planner::FitLine& line : report.fits) {
      table.rows.push_back({line.what, std::to_string(line.points), percent(line.residual)});
    }
    print_table(console, table);
  }
  if (!report.collectives.empty()) {
    Table table{.head = {"collective, 1 MiB and up", "points", "latency and rate", "model before",
                         "model after"},
                .rows = {}};
    for (const planner::CollectiveFitReport& line : report.collectives) {
      table.rows.push_back({line.name, std::to_string(line.points), percent(line.regimes_error),
                            percent(line.model_error_before), percent(line.model_error_after)});
    }
    print_table(console, table);
  }
}

void print_runs(const Console& console, const CalibrationReport& report,
                const topologies::Profile& profile) {
  Table table{.head = {"run", "measured", "predicted before", "after"}, .rows = {}};
  for (const planner::RunFitLine& run : report.runs.runs) {
    table.rows.push_back({run.name, duration_text(run.measured_seconds),
                          run.before_seconds > 0 ? duration_text(run.before_seconds) : "-",
                          run.after_seconds > 0 ? duration_text(run.after_seconds) : "-"});
  }
  print_table(console, table);
  fmt::print(console.out, "mean error {} before, {} after\n", percent(report.runs.error_before),
             percent(report.runs.error_after));
  for (const auto& [category, correction] : profile.corrections) {
    fmt::print(console.out, "{} takes {:.3f} times the model's time ({} runs, weight {:.2f})\n",
               category, correction.factor, correction.runs, correction.evidence);
  }
  if (profile.interval) {
    fmt::print(console.out, "90 % of runs: {:.3f} to {:.3f} times the prediction\n",
               profile.interval->low, profile.interval->high);
  }
}

}  // namespace

void print_calibration(const Console& console, const CalibrationReport& report,
                       const topologies::Profile& profile, bool json) {
  if (json) {
    print_json(console, "calibrate", report_json(report, profile));
    return;
  }
  print_fits(console, report);
  if (!report.runs.runs.empty()) {
    print_runs(console, report, profile);
  }
  for (const std::string& remark : report.remarks) {
    fmt::print(console.out, "{}\n", remark);
  }
  fmt::print(console.out, "{} written; use it with --calibration {}\n", report.output,
             report.output);
}

}  // namespace trireme::tools
