#include "tools/pages.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cost/time_items.h"
#include "tools/page_parts.h"
#include "tools/plan_report.h"
#include "tools/report.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;

// Where the GPU's peak goes: what is computed, and what each part of the step takes from it.
void waterfall(const Estimate& estimate, Page& page) {
  const planner::TimeItems& exposed = estimate.time.exposed;
  const double step = estimate.time.step_seconds;
  BarChart chart{.title = "From the GPU's peak to its MFU, per cent of the step", .bars = {}};
  const double mfu = 100 * estimate.throughput.mfu;
  double left = 100;
  for (const planner::TimeItem& item : planner::kTimeItems) {
    const double share = 100 * (exposed.*(item.part)) / step;
    const double lost =
        item.part == &planner::TimeItems::compute ? std::max(0.0, share - mfu) : share;
    if (lost < 0.05) {
      continue;
    }
    left -= lost;
    const bool compute = item.part == &planner::TimeItems::compute;
    chart.bars.push_back({.name = compute ? "kernels below peak, recompute" : item.name,
                          .text = fmt::format("{:.1f} % lost, {:.1f} % left", lost, left),
                          .parts = {{"left", left}, {"lost here", lost}}});
  }
  chart.bars.push_back(
      {.name = "MFU", .text = fmt::format("{:.1f} %", mfu), .parts = {{"left", mfu}}});
  page.bars(chart);
}

ChartPoint point_of(const std::string& name, double step, double low, double high, double memory) {
  return {.name = name,
          .text = fmt::format("{}, {}", duration_text(step), gib_text(memory)),
          .x = step,
          .y = memory,
          .low = low,
          .high = high};
}

ChartPoint point_of(const Estimate& estimate) {
  return point_of(planner::short_form(estimate.plan), estimate.time.step_seconds,
                  estimate.time.low_seconds, estimate.time.high_seconds,
                  estimate.memory.allocated_gib);
}

}  // namespace

Page estimate_page(const Job& job, const Estimate& estimate) {
  Page page(planner::short_form(estimate.plan) + ": " + job_text(job));
  page.text(verdict(estimate.memory));
  page.table({.head = {"step", "tokens/s", "TFLOP/s per GPU", "MFU", "HFU"},
              .rows = {{step_text(estimate.time), grouped(estimate.throughput.tokens_per_second),
                        fmt::format("{:.0f}", estimate.throughput.model_tflops_per_gpu),
                        fmt::format("{:.1f} %", 100 * estimate.throughput.mfu),
                        fmt::format("{:.1f} %", 100 * estimate.throughput.hfu)}}});
  page.bars(
      {.title = "Exposed time of a step, seconds", .bars = {time_bar("step", estimate.time)}});
  waterfall(estimate, page);
  add_memory(job, estimate.memory, page);
  add_provenance(job, page);
  return page;
}

Page plan_page(const Job& job, const PlanReport& report) {
  const planner::SearchResult& result = report.result;
  Page page(job_text(job));
  page.text(fmt::format("{} legal layouts: {} estimated, {} excluded by bounds.",
                        grouped(static_cast<double>(result.space)),
                        grouped(static_cast<double>(result.evaluated)),
                        grouped(static_cast<double>(result.pruned_by_bound))));
  Scatter scatter{.title = "Step time and memory: the best layout, the others, the Pareto front",
                  .x_name = "step, seconds (line: 90 % interval)",
                  .y_name = "peak allocated, GiB",
                  .points = {}};
  Table table{.head = {"layout", "step", "MFU", "memory", "fits"}, .rows = {}};
  BarChart times{.title = "Where the time goes, seconds", .bars = {}};
  const auto add = [&](const Estimate& estimate, bool best) {
    ChartPoint point = point_of(estimate);
    point.marked = best;
    const std::string point_link = fmt::format("time-{}", times.bars.size());
    point.link = point_link;
    scatter.points.push_back(point);
    table.rows.push_back({planner::short_form(estimate.plan), step_text(estimate.time),
                          fmt::format("{:.1f} %", 100 * estimate.throughput.mfu),
                          gib_text(estimate.memory.allocated_gib),
                          std::string(to_string(estimate.memory.fit))});
    times.bars.push_back(time_bar(planner::short_form(estimate.plan), estimate.time));
    times.bars.back().id = point_link;
    scatter.y_limit = estimate.memory.capacity_gib;
    scatter.limit_name = "capacity " + gib_text(estimate.memory.capacity_gib);
  };
  for (const planner::RankedPlan& plan : result.pareto) {
    ChartPoint point = point_of(planner::short_form(plan.plan), plan.step_seconds, plan.low_seconds,
                                plan.high_seconds, plan.memory_gib);
    point.faint = true;
    scatter.points.push_back(point);
  }
  if (result.best) {
    add(*result.best, true);
  }
  for (const Estimate& estimate : result.alternatives) {
    add(estimate, false);
  }
  for (const Estimate& estimate : result.best ? std::vector<Estimate>{} : result.nearest_misses) {
    add(estimate, false);
  }
  page.scatter(scatter);
  page.heading(result.best ? "The best layouts" : "Nothing fits; the nearest");
  page.table(table);
  page.bars(times);
  if (result.best) {
    add_memory(job, result.best->memory, page);
  }
  if (!result.rejected.empty()) {
    page.heading("What was rejected, and why");
    Table rejected{.head = {"rule", "example", "count"}, .rows = {}, .text_columns = 2};
    for (const planner::Rejection& one : result.rejected) {
      rejected.rows.push_back({std::string(planner::to_string(one.rule)), one.detail,
                               grouped(static_cast<double>(one.count))});
    }
    page.table(rejected);
  }
  add_provenance(job, page);
  return page;
}

}  // namespace trireme::tools
