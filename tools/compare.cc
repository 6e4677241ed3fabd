// `trireme compare`: a prediction beside a measured run, joined op by op.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/compare_framework.h"
#include "tools/compare_side.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kWorstOps = 10;

struct Options {
  std::string predicted, measured, tolerance;
  bool json = false;
};

// Two numbers for the same thing; the error is relative to the measurement.
struct Pair {
  double predicted = 0, measured = 0;
  [[nodiscard]] double difference() const { return predicted - measured; }
  [[nodiscard]] std::optional<double> error() const {
    return measured > 0 ? std::optional(difference() / measured) : std::nullopt;
  }
};

struct JoinedOp {
  OpKey key;
  std::string category;
  Pair transfer, skew;  // seconds of all its instances in one step
  double count = 0;
};

struct Comparison {
  ComparedSide predicted, measured;
  std::optional<Pair> step, memory;
  std::map<std::string, Pair> transfer_by_category,
      skew_by_category;         // summed over ops, mean over stages
  std::vector<JoinedOp> ops;    // worst first
  std::vector<JoinedOp> kinds;  // all layers and micro-batches of an op together; worst first
  std::size_t only_predicted = 0, only_measured = 0;
};

std::optional<Pair> pair_of(const std::optional<double>& predicted,
                            const std::optional<double>& measured) {
  return predicted && measured ? std::optional(Pair{*predicted, *measured}) : std::nullopt;
}

void put_worst_first(std::vector<JoinedOp>& ops) {
  std::stable_sort(ops.begin(), ops.end(), [](const JoinedOp& a, const JoinedOp& b) {
    return std::abs(a.transfer.difference()) > std::abs(b.transfer.difference());
  });
}

std::vector<JoinedOp> kinds_of(const std::vector<JoinedOp>& ops) {
  std::map<OpKey, JoinedOp> kinds;
  for (const JoinedOp& op : ops) {
    const OpKey key = without_place(op.key);
    JoinedOp& kind = kinds[key];
    kind.key = key;
    kind.category = op.category;
    kind.count += op.count;
    kind.transfer.predicted += op.transfer.predicted;
    kind.transfer.measured += op.transfer.measured;
    kind.skew.predicted += op.skew.predicted;
    kind.skew.measured += op.skew.measured;
  }
  std::vector<JoinedOp> result;
  result.reserve(kinds.size());
  for (const auto& [key, kind] : kinds) {
    result.push_back(kind);
  }
  return result;
}

void join_ops(Comparison& comparison) {
  const bool detailed = comparison.predicted.by_micro_batch && comparison.measured.by_micro_batch;
  const auto predicted = detailed ? comparison.predicted.ops : merged_ops(comparison.predicted);
  const auto measured = detailed ? comparison.measured.ops : merged_ops(comparison.measured);
  std::map<std::uint32_t, bool> stages;
  for (const auto& [key, stat] : measured) {
    const auto found = predicted.find(key);
    if (found == predicted.end()) {
      ++comparison.only_measured;
      continue;
    }
    stages[key.stage] = true;
    const OpStat& other = found->second;
    comparison.ops.push_back({key,
                              stat.category,
                              {other.transfer * stat.count, stat.transfer * stat.count},
                              {other.skew * stat.count, stat.skew * stat.count},
                              stat.count});
  }
  comparison.only_predicted = predicted.size() - comparison.ops.size();
  for (const JoinedOp& op : comparison.ops) {
    const auto share = static_cast<double>(stages.size());
    Pair& transfer = comparison.transfer_by_category[op.category];
    transfer.predicted += op.transfer.predicted / share;
    transfer.measured += op.transfer.measured / share;
    Pair& skew = comparison.skew_by_category[op.category];
    skew.predicted += op.skew.predicted / share;
    skew.measured += op.skew.measured / share;
  }
  comparison.kinds = kinds_of(comparison.ops);
  put_worst_first(comparison.ops);
  put_worst_first(comparison.kinds);
}

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

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> unattributed(const ComparedSide& side) {
  return side.split ? std::optional(side.split->seconds.at("unattributed")) : std::nullopt;
}

std::optional<double> share_of_step(const ComparedSide& side, const std::optional<double>& part) {
  return part && side.split->step_seconds > 0 ? std::optional(*part / side.split->step_seconds)
                                              : std::nullopt;
}

std::optional<double> unattributed_share(const ComparedSide& side) {
  return share_of_step(side, unattributed(side));
}

std::optional<double> communication_share(const ComparedSide& side) {
  return side.split ? share_of_step(side, side.split->exposed_communication) : std::nullopt;
}

// The parts of either side's step, those that are nothing on both left out.
std::vector<std::pair<std::string, Pair>> exposed_parts(const Comparison& c) {
  std::vector<std::pair<std::string, Pair>> parts;
  const auto part = [](const std::optional<TimeSplit>& split, const std::string& name) {
    const auto found = split ? split->seconds.find(name) : decltype(split->seconds.end()){};
    return split && found != split->seconds.end() ? found->second : 0.0;
  };
  for (const std::string& name : time_split_names()) {
    const Pair pair{part(c.predicted.split, name), part(c.measured.split, name)};
    if (pair.predicted > 0 || pair.measured > 0) {
      parts.emplace_back(name, pair);
    }
  }
  return parts;
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

std::string percent(const Pair& pair) {
  return pair.error() ? fmt::format("{:+.1f} %", 100 * *pair.error()) : std::string("-");
}

void print_totals(const Console& console, const Comparison& c) {
  Table table{.head = {"whole step", "predicted", "measured", "error"}, .rows = {}};
  if (c.step) {
    table.rows.push_back({"step time", duration_text(c.step->predicted),
                          duration_text(c.step->measured), percent(*c.step)});
  }
  if (c.memory) {
    table.rows.push_back({"peak memory", fmt::format("{:.3f} GiB", c.memory->predicted),
                          fmt::format("{:.3f} GiB", c.memory->measured), percent(*c.memory)});
  }
  const auto text = [](const std::optional<double>& share) {
    return share ? fmt::format("{:.1f} %", 100 * *share) : std::string("-");
  };
  table.rows.push_back({"exposed communication", text(communication_share(c.predicted)),
                        text(communication_share(c.measured)), ""});
  table.rows.push_back({"unattributed", text(share_of_step(c.predicted, unattributed(c.predicted))),
                        text(unattributed_share(c.measured)), ""});
  print_table(console, table);
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
                          c.predicted.split && c.measured.split ? percent(pair) : "-"});
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
                          duration_text(op.transfer.measured), percent(op.transfer)});
  }
  print_heading(console, fmt::format("The {} that differ most", worst.rows.size()));
  print_table(console, worst);
}

void print_comparison(const Console& console, const Comparison& c) {
  print_heading(console, fmt::format("{} ({}) against {} ({})", c.predicted.path,
                                     c.predicted.source, c.measured.path, c.measured.source));
  print_totals(console, c);
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
                               duration_text(transfer.measured), percent(transfer),
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

int run(const Options& options, Console& console) {
  if (!options.measured.empty() &&
      compare_with_framework(
          {options.predicted, options.measured, !options.tolerance.empty(), options.json},
          console)) {
    return kDone;
  }
  Comparison comparison;
  const std::optional<double> tolerance = tolerance_of(options.tolerance);
  const std::string& measured = options.measured.empty() ? options.predicted : options.measured;
  comparison.measured = read_compared_side(measured);
  comparison.predicted = options.measured.empty() ? predicted_side_of_result(measured)
                                                  : read_compared_side(options.predicted);
  comparison.step = pair_of(comparison.predicted.step_seconds, comparison.measured.step_seconds);
  comparison.memory =
      pair_of(comparison.predicted.peak_memory_gib, comparison.measured.peak_memory_gib);
  join_ops(comparison);
  if (tolerance && !comparison.step) {
    throw Error("--tolerance", "needs a step time on both sides");
  }
  const bool within =
      !tolerance || !comparison.step->error() || std::abs(*comparison.step->error()) <= *tolerance;
  if (options.json) {
    print_json(console, "compare", comparison_json(comparison, tolerance, within));
  } else {
    print_comparison(console, comparison);
  }
  return within ? kDone : kAnswerIsNo;
}

}  // namespace

void add_compare_command(CLI::App& app, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
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
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
