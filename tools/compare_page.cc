// A prediction beside a measured run as a page.
#include <fmt/format.h>

#include <algorithm>

#include "tools/compare_join.h"
#include "tools/page_parts.h"
#include "tools/pages.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kMostOps = 40;

// Where the step goes on either side, as two bars above each other.
void add_parts(const Comparison& c, Page& page) {
  BarChart chart{.title = "Where the step goes, every instant once, seconds", .bars = {}};
  Bar predicted{.name = "predicted"};
  Bar measured{.name = "measured"};
  Table table{.head = {"part", "predicted", "measured", "error"}, .rows = {}};
  for (const auto& [name, pair] : exposed_parts(c)) {
    predicted.parts.push_back({name, pair.predicted});
    measured.parts.push_back({name, pair.measured});
    table.rows.push_back({name, c.predicted.split ? duration_text(pair.predicted) : "-",
                          c.measured.split ? duration_text(pair.measured) : "-",
                          c.predicted.split && c.measured.split ? error_text(pair) : "-"});
  }
  const auto add = [&](Bar& bar, const ComparedSide& side) {
    if (side.split) {
      bar.text = duration_text(side.split->step_seconds);
      chart.bars.push_back(bar);
    }
  };
  add(predicted, c.predicted);
  add(measured, c.measured);
  page.bars(chart);
  if (!table.rows.empty()) {
    page.table(table);
  }
}

Table ops_table(const char* what, const std::vector<JoinedOp>& ops) {
  Table table{.head = {what, "stage", "count", "predicted", "measured", "error"}, .rows = {}};
  for (std::size_t i = 0; i < std::min(kMostOps, ops.size()); ++i) {
    const JoinedOp& op = ops[i];
    table.rows.push_back({op.key.phase + " " + op.key.label, fmt::format("{}", op.key.stage),
                          fmt::format("{:g}", op.count), duration_text(op.transfer.predicted),
                          duration_text(op.transfer.measured), error_text(op.transfer)});
  }
  return table;
}

// Each kind of op as a point: on the diagonal it takes what was predicted.
void add_scatter(const Comparison& c, Page& page) {
  Scatter chart{.title = "Each kind of op: measured over predicted, milliseconds of a step",
                .x_name = "predicted, ms",
                .y_name = "measured, ms",
                .points = {}};
  for (std::size_t i = 0; i < c.kinds.size(); ++i) {
    const JoinedOp& kind = c.kinds[i];
    chart.points.push_back(
        {.name = kind.key.phase + " " + kind.key.label,
         .text = fmt::format("stage {}, {} predicted, {} measured, {}", kind.key.stage,
                             duration_text(kind.transfer.predicted),
                             duration_text(kind.transfer.measured), error_text(kind.transfer)),
         .x = 1e3 * kind.transfer.predicted,
         .y = 1e3 * kind.transfer.measured,
         .marked = i == 0});
  }
  chart.diagonal = true;
  page.scatter(chart);
}

}  // namespace

Page compare_page(const Comparison& c) {
  Page page(fmt::format("{} ({}) against {} ({})", c.predicted.path, c.predicted.source,
                        c.measured.path, c.measured.source));
  page.table(comparison_totals(c));
  add_parts(c, page);
  Table categories{
      .head = {"category", "predicted", "measured", "error", "skew predicted", "skew measured"},
      .rows = {}};
  for (const auto& [name, transfer] : c.transfer_by_category) {
    const Pair& skew = c.skew_by_category.at(name);
    categories.rows.push_back({name, duration_text(transfer.predicted),
                               duration_text(transfer.measured), error_text(transfer),
                               duration_text(skew.predicted), duration_text(skew.measured)});
  }
  add_section("Op time of a step by category, mean over stages, overlap not taken off", categories,
              page);
  add_scatter(c, page);
  add_section("The kinds of ops that differ most, all layers and micro-batches",
              ops_table("op", c.kinds), page);
  if (c.kinds.size() < c.ops.size()) {
    add_section("The ops that differ most", ops_table("op", c.ops), page);
  }
  page.heading("Where the numbers come from");
  page.text(
      fmt::format("Predicted: {} ({}). Measured: {} ({}). {} ops joined, {} only predicted, {} "
                  "only measured.",
                  c.predicted.path, c.predicted.source, c.measured.path, c.measured.source,
                  c.ops.size(), c.only_predicted, c.only_measured));
  return page;
}

}  // namespace trireme::tools
