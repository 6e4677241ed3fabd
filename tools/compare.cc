// `trireme compare`: a prediction beside a measured run, joined op by op.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/compare_framework.h"
#include "tools/compare_join.h"
#include "tools/options.h"
#include "tools/pages.h"
#include "tools/report.h"
#include "tools/report_option.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kWorstOps = 10;

struct CompareArguments {
  std::string predicted, measured, tolerance, report;
  bool json = false;
};

Json error_json(const Pair& pair) {
  return pair.error() ? Json(*pair.error()) : Json();
}

Json pair_json(const std::optional<Pair>& pair, const char* predicted, const char* measured) {
  if (!pair) {
    return {};
  }
  return {{predicted, pair->predicted}, {measured, pair->measured}, {"error", error_json(*pair)}};
}

Json side_json(const ComparedSide& side) {
  return {{"file", side.path}, {"source", side.source}};
}

Json exposed_json(const Comparison& c) {
  Json json = Json::array();
  for (const auto& [name, pair] : exposed_parts(c)) {
    json.push_back({{"category", name},
                    {"predicted_seconds", c.predicted.split ? Json(pair.predicted) : Json()},
                    {"measured_seconds", c.measured.split ? Json(pair.measured) : Json()},
                    {"error", c.predicted.split ? error_json(pair) : Json()}});
  }
  return json;
}

Json worst_json(const std::vector<JoinedOp>& ops) {
  Json worst = Json::array();
  for (std::size_t i = 0; i < std::min(kWorstOps, ops.size()); ++i) {
    const JoinedOp& op = ops[i];
    worst.push_back({{"op", op.key.phase + " " + op.key.label},
                     {"stage", op.key.stage},
                     {"category", op.category},
                     {"count", op.count},
                     {"predicted_seconds", op.transfer.predicted},
                     {"measured_seconds", op.transfer.measured},
                     {"error", error_json(op.transfer)}});
  }
  return worst;
}

Json comparison_json(const Comparison& c, const std::optional<double>& tolerance, bool within) {
  Json categories = Json::array();
  for (const auto& [name, transfer] : c.transfer_by_category) {
    const Pair& skew = c.skew_by_category.at(name);
    categories.push_back({{"category", name},
                          {"predicted_seconds", transfer.predicted},
                          {"measured_seconds", transfer.measured},
                          {"error", error_json(transfer)},
                          {"predicted_skew_seconds", skew.predicted},
                          {"measured_skew_seconds", skew.measured}});
  }
  return {{"predicted", side_json(c.predicted)},
          {"measured", side_json(c.measured)},
          {"step", pair_json(c.step, "predicted_seconds", "measured_seconds")},
          {"memory", pair_json(c.memory, "predicted_gib", "measured_gib")},
          {"categories", categories},
          {"worst_ops", worst_json(c.ops)},
          {"worst_kinds", worst_json(c.kinds)},
          {"joined_ops", c.ops.size()},
          {"only_predicted_ops", c.only_predicted},
          {"only_measured_ops", c.only_measured},
          {"exposed", exposed_json(c)},
          {"exposed_communication_share",
           {{"predicted", optional_json(communication_share(c.predicted))},
            {"measured", optional_json(communication_share(c.measured))}}},
          {"unattributed",
           {{"predicted_seconds", optional_json(unattributed(c.predicted))},
            {"measured_seconds", optional_json(unattributed(c.measured))},
            {"measured_share", optional_json(unattributed_share(c.measured))}}},
          {"tolerance", optional_json(tolerance)},
          {"within_tolerance", within}};
}

void print_exposed(const Console& console, const Comparison& c) {
  const auto parts = exposed_parts(c);
  if (parts.empty()) {
    return;
  }
  Table table{.head = {"part of the step", "predicted", "measured", "error"}, .rows = {}};
  for (const auto& [name, pair] : parts) {
    table.rows.push_back({name, c.predicted.split ? duration_text(pair.predicted) : "-",
                          c.measured.split ? duration_text(pair.measured) : "-",
                          c.predicted.split && c.measured.split ? error_text(pair) : "-"});
  }
  print_heading(console, "Where the step goes (every instant once, mean over ranks)");
  print_table(console, table);
}

void print_worst(const Console& console, const char* what, const std::vector<JoinedOp>& ops) {
  Table worst{.head = {what, "stage", "count", "predicted", "measured", "error"}, .rows = {}};
  for (std::size_t i = 0; i < std::min(kWorstOps, ops.size()); ++i) {
    const JoinedOp& op = ops[i];
    worst.rows.push_back({op.key.phase + " " + op.key.label, std::to_string(op.key.stage),
                          fmt::format("{:g}", op.count), duration_text(op.transfer.predicted),
                          duration_text(op.transfer.measured), error_text(op.transfer)});
  }
  print_heading(console, fmt::format("The {} that differ most", worst.rows.size()));
  print_table(console, worst);
}

void print_comparison(const Console& console, const Comparison& c) {
  print_heading(console, fmt::format("{} ({}) against {} ({})", c.predicted.path,
                                     c.predicted.source, c.measured.path, c.measured.source));
  print_table(console, comparison_totals(c));
  print_exposed(console, c);
  if (c.ops.empty()) {
    fmt::print(console.out,
               "\nNo op is on both sides; name two traces, or a trace and the result of a run with "
               "--trace.\n");
    return;
  }
  Table categories{
      .head = {"category", "predicted", "measured", "error", "skew predicted", "skew measured"},
      .rows = {}};
  for (const auto& [name, transfer] : c.transfer_by_category) {
    const Pair& skew = c.skew_by_category.at(name);
    categories.rows.push_back({name, duration_text(transfer.predicted),
                               duration_text(transfer.measured), error_text(transfer),
                               duration_text(skew.predicted), duration_text(skew.measured)});
  }
  print_heading(console, "Op time of a step by category (mean over stages, overlap not taken off)");
  print_table(console, categories);
  print_worst(console, "op", c.ops);
  if (c.kinds.size() < c.ops.size()) {
    print_worst(console, "op, all layers and micro-batches", c.kinds);
  }
  fmt::print(console.out, "\n{} ops joined, {} only predicted, {} only measured\n", c.ops.size(),
             c.only_predicted, c.only_measured);
}

// "5%" or "0.05".
std::optional<double> tolerance_of(const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const bool percent = text.ends_with('%');
  const double value =
      parse_number(percent ? text.substr(0, text.size() - 1) : text, "--tolerance", 0, 1e6);
  return percent ? value / 100 : value;
}

int run(const CompareArguments& options, Console& console) {
  if (!options.measured.empty() &&
      compare_with_framework(
          {options.predicted, options.measured, !options.tolerance.empty(), options.json},
          console)) {
    if (!options.report.empty()) {
      throw Error("--report",
                  "there is no page of a plan beside a framework's trace; --json has all of it");
    }
    return kDone;
  }
  Comparison comparison;
  const std::optional<double> tolerance = tolerance_of(options.tolerance);
  const std::string& measured = options.measured.empty() ? options.predicted : options.measured;
  comparison.measured = read_compared_side(measured);
  comparison.predicted = options.measured.empty() ? predicted_side_of_result(measured)
                                                  : read_compared_side(options.predicted);
  join_sides(comparison);
  if (tolerance && !comparison.step) {
    throw Error("--tolerance", "needs a step time on both sides");
  }
  const bool within =
      !tolerance || !comparison.step->error() || std::abs(*comparison.step->error()) <= *tolerance;
  if (!options.report.empty()) {
    write_page(options.report, compare_page(comparison));
  }
  if (options.json) {
    print_json(console, "compare", comparison_json(comparison, tolerance, within));
  } else {
    print_comparison(console, comparison);
  }
  return within ? kDone : kAnswerIsNo;
}

}  // namespace

void add_compare_command(Command& app, Program& program) {
  auto options = std::make_shared<CompareArguments>();
  Command* command =
      add_command(app, program, "compare",
                  "a prediction beside a measured run: error by category, the worst ops",
                  "trireme compare simulated.trace.json measured.trace.json --tolerance 10%");
  command
      ->add_option("predicted", options->predicted,
                   "a trace, or the JSON of estimate, simulate or run; a run's result alone is "
                   "compared with the predictions it carries; a plan file beside a real "
                   "framework's trace")
      ->required();
  command->add_option(
      "measured", options->measured,
      "a trace, or the JSON of run; of a real framework a trace of PyTorch's profiler, "
      "which may be gzipped");
  command
      ->add_option("--tolerance", options->tolerance,
                   "largest error of the step time, as 5% or 0.05; exit code 1 beyond it")
      ->type_name("SHARE");
  add_report_option(*command, options->report);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
