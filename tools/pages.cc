#include "tools/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "planner/cost/time_items.h"
#include "planner/search/search.h"
#include "tools/budget_report.h"
#include "tools/report.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;

std::string gib(double value) {
  return fmt::format("{:.1f} GiB", value);
}

std::string step_text(const planner::TimeEstimate& time) {
  return fmt::format("{} ({} to {})", duration_text(time.step_seconds),
                     duration_text(time.low_seconds), duration_text(time.high_seconds));
}

Bar time_bar(const std::string& name, const planner::TimeEstimate& time) {
  Bar bar{.name = name,
          .text = step_text(time),
          .parts = {},
          .low = time.low_seconds,
          .high = time.high_seconds};
  for (const planner::TimeItem& item : planner::kTimeItems) {
    if (time.exposed.*(item.part) > 0) {
      bar.parts.push_back({item.name, time.exposed.*(item.part)});
    }
  }
  return bar;
}

Bar memory_bar(const std::string& name, const planner::MemoryItems& items) {
  return {.name = name,
          .text = gib(items.total()),
          .parts = {{"parameters", items.parameters},
                    {"gradients", items.gradients},
                    {"optimizer", items.optimizer},
                    {"activations", items.activations},
                    {"gathered parameters", items.gathered_parameters},
                    {"logits", items.logits},
                    {"communication", items.communication},
                    {"other", items.other}}};
}

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

void add_memory(const Job& job, const planner::MemoryEstimate& memory, Page& page) {
  BarChart chart{.title = "Memory at its peak, by stage of the pipeline",
                 .bars = {},
                 .limit = memory.capacity_gib,
                 .limit_name = gib(memory.capacity_gib) + ", what the allocator can have"};
  constexpr std::size_t kMost = 32;
  for (std::size_t stage = 0; stage < std::min(kMost, memory.stages.size()); ++stage) {
    chart.bars.push_back(memory_bar(fmt::format("stage {}", stage), memory.stages[stage].items));
  }
  page.bars(chart);
  if (memory.host_gib > 0) {
    page.text(fmt::format("{} of a node's host memory of {} ({}).", gib(memory.host_gib),
                          gib(memory.host_capacity_gib), planner::to_text(job.offload)));
  }
}

void add_provenance(const Job& job, Page& page) {
  page.heading("Where the numbers come from");
  page.text(fmt::format(
      "Closed-form estimate of trireme under the behaviour of {}; profile {}. Intervals hold 90 % "
      "of the validation rows. GPU: {}.",
      job.framework.name, job.profile.name, job.cluster.gpu.source));
}

ChartPoint point_of(const std::string& name, double step, double low, double high, double memory) {
  return {.name = name,
          .text = fmt::format("{}, {}", duration_text(step), gib(memory)),
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

void add_section(const std::string& heading, const Table& table, Page& page) {
  if (!table.rows.empty()) {
    page.heading(heading);
    page.table(table);
  }
}

ChartPoint curve_point(const std::string& name, double x, const planner::TimeEstimate& time) {
  return {.name = name,
          .text = step_text(time),
          .x = x,
          .y = time.step_seconds,
          .low = time.low_seconds,
          .high = time.high_seconds};
}

void add_scaling(const std::string& title, const ScalingCurve& curve, Page& page) {
  LineChart chart{.title = title,
                  .x_name = "GPUs",
                  .y_name = "step, seconds (band: 90 % interval)",
                  .lines = {{.name = "step"}, {.name = "F19 of the base", .dashed = true}},
                  .marks = {},
                  .logarithmic = true};
  for (const ScalingPoint& point : curve.points) {
    if (!point.answer.estimate) {
      continue;
    }
    const auto gpus = static_cast<double>(point.gpus);
    chart.lines[0].points.push_back(curve_point(
        fmt::format("{} GPUs, {}", point.gpus, planner::short_form(point.answer.estimate->plan)),
        gpus, point.answer.estimate->time));
    chart.lines[1].points.push_back({.x = gpus, .y = point.f19_seconds});
  }
  if (curve.knee_gpus) {
    chart.marks.push_back({static_cast<double>(*curve.knee_gpus), "knee"});
  }
  if (chart.lines[0].points.size() > 1) {
    page.lines(chart);
  }
  page.table(scaling_table(curve));
  page.text(knee_text(curve));
}

// The number a value starts with: "0.5x", "400 Gbit/s", "4096".
std::optional<double> number_at_start(const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  return end != value.c_str() && number > 0 ? std::optional<double>(number) : std::nullopt;
}

// One thing varied over numbers is a curve; a mark stands where the layout changed.
void add_case_curve(const std::vector<WhatIfCase>& cases, Page& page) {
  LineChart chart{.title = "",
                  .x_name = "",
                  .y_name = "step, seconds (band: 90 % interval)",
                  .lines = {{.name = "step"}}};
  std::vector<std::pair<double, const WhatIfCase*>> sorted;
  for (const WhatIfCase& mine : cases) {
    const auto number =
        mine.changes.size() == 1 ? number_at_start(mine.changes.front().value) : std::nullopt;
    if (!number) {
      return;
    }
    if (mine.estimate) {
      sorted.emplace_back(*number, &mine);
    }
  }
  if (sorted.size() < 3) {
    return;
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  chart.x_name = cases.front().changes.front().name;
  chart.title = "Step over " + chart.x_name;
  chart.logarithmic = sorted.back().first > 4 * sorted.front().first;
  std::string layout;
  for (const auto& [number, mine] : sorted) {
    const std::string now = planner::short_form(mine->estimate->plan);
    chart.lines[0].points.push_back(
        curve_point(mine->changes.front().value + ", " + now, number, mine->estimate->time));
    if (!layout.empty() && now != layout) {
      chart.marks.push_back({number, "from here " + now});
    }
    layout = now;
  }
  page.lines(chart);
}

std::string dollars(double value) {
  return value >= 1e6 ? fmt::format("${:.2f}M", value / 1e6) : fmt::format("${}", grouped(value));
}

void add_family(const OfferFamily& family, const std::vector<OfferAnswer>& answers, Page& page) {
  LineChart chart{
      .title = family.name + ": days over GPUs",
      .x_name = "GPUs",
      .y_name = "days for as many tokens (band: 90 % interval)",
      .lines = {{.name = "days"}, {.name = "as many GPU-hours as the first", .dashed = true}},
      .marks = {},
      .logarithmic = true};
  for (const FamilyPoint& point : family.points) {
    const OfferAnswer& answer = answers[point.answer];
    const auto gpus = static_cast<double>(answer.job.cluster.gpus);
    const OfferAnswer& first = answers[family.points.front().answer];
    chart.lines[0].points.push_back(
        {.name = answer.offer.name,
         .text = fmt::format("{:.1f} days, {:.1f} % of the first's efficiency", answer.days.value,
                             100 * point.efficiency),
         .x = gpus,
         .y = answer.days.value,
         .low = answer.days.low,
         .high = answer.days.high});
    chart.lines[1].points.push_back(
        {.x = gpus,
         .y = first.days.value * static_cast<double>(first.job.cluster.gpus) / gpus *
              answer.tokens / first.tokens});
  }
  if (family.knee_gpus) {
    chart.marks.push_back({static_cast<double>(*family.knee_gpus), "knee"});
  }
  if (chart.lines[0].points.size() > 1) {
    page.lines(chart);
  }
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
    scatter.points.push_back(point);
    table.rows.push_back({planner::short_form(estimate.plan), step_text(estimate.time),
                          fmt::format("{:.1f} %", 100 * estimate.throughput.mfu),
                          gib(estimate.memory.allocated_gib),
                          std::string(to_string(estimate.memory.fit))});
    times.bars.push_back(time_bar(planner::short_form(estimate.plan), estimate.time));
    scatter.y_limit = estimate.memory.capacity_gib;
    scatter.limit_name = "capacity " + gib(estimate.memory.capacity_gib);
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

Page whatif_page(const WhatIfAnswer& answer) {
  const WhatIfCase& base = answer.base;
  Page page(job_text(base.job));
  BarChart steps{.title = "Step, seconds (line: 90 % interval)", .bars = {}};
  steps.bars.push_back(
      time_bar("base, " + planner::short_form(base.estimate->plan), base.estimate->time));
  Table table{.head = {"case", "layout", "step", "ratio", "memory", "notes"},
              .rows = {},
              .text_columns = 2};
  for (const WhatIfCase& mine : answer.cases) {
    std::string notes;
    for (const std::string& note : mine.notes) {
      notes += (notes.empty() ? "" : "; ") + note;
    }
    if (!mine.estimate) {
      table.rows.push_back({case_name(mine), "none", "", "", "", notes});
      continue;
    }
    const std::string layout = planner::short_form(mine.estimate->plan);
    const bool same = mine.estimate->plan == base.estimate->plan;
    steps.bars.push_back(
        time_bar(case_name(mine) + (same ? "" : ", now " + layout), mine.estimate->time));
    table.rows.push_back({case_name(mine), layout, step_text(mine.estimate->time),
                          fmt::format("{:.3f}", mine.step_ratio),
                          gib(mine.estimate->memory.allocated_gib), notes});
  }
  add_case_curve(answer.cases, page);
  page.bars(steps);
  if (!answer.cases.empty()) {
    page.heading("The cases");
    page.table(table);
  }
  add_section("Prices", price_table(answer), page);
  if (answer.scaling) {
    add_scaling("Strong scaling: the same batch", answer.scaling->strong, page);
    add_scaling("Weak scaling: a batch that grows with the GPUs", answer.scaling->weak, page);
  }
  add_section("Where another layout takes over", layout_change_table(answer.layout_changes), page);
  add_section(fmt::format("For a step {:g} % shorter, of one thing alone", 100 * answer.faster),
              purchase_table(answer.purchases), page);
  page.heading("Elasticities of the base: what 10 % more buys");
  Table elastic{.head = {"10 % more of", "changes the step by"}, .rows = {}};
  for (const auto& [name, value] : base.elasticity) {
    elastic.rows.push_back({name, fmt::format("{:+.1f} %", 10 * value)});
  }
  page.table(elastic);
  add_provenance(base.job, page);
  return page;
}

Page budget_page(const BudgetRequest& request, const std::vector<OfferAnswer>& answers) {
  Page page(answers.empty()
                ? "budget"
                : fmt::format("{}: {} tokens", answers.front().job.model.name,
                              count_text(request.tokens.value_or(answers.front().tokens))));
  BarChart cost{.title = "Dollars (line: 90 % interval)", .bars = {}};
  BarChart days{.title = "Days (line: 90 % interval)", .bars = {}};
  if (request.dollars) {
    cost.limit = *request.dollars;
    cost.limit_name = dollars(*request.dollars);
  }
  if (request.deadline_seconds) {
    days.limit = *request.deadline_seconds / 86400;
    days.limit_name = fmt::format("the deadline, {:.1f} days", days.limit);
  }
  for (const OfferAnswer& answer : answers) {
    if (!answer.answered()) {
      continue;
    }
    const Range& price = answer.dollars;
    const double lost = 1 - answer.goodput;
    cost.bars.push_back({.name = answer.offer.name,
                         .text = fmt::format("{} ({} to {})", dollars(price.value),
                                             dollars(price.low), dollars(price.high)),
                         .parts = {{"training", price.value * answer.goodput},
                                   {"failures and saves", price.value * lost}},
                         .low = price.low,
                         .high = price.high});
    const Range& time = answer.days;
    days.bars.push_back({.name = answer.offer.name,
                         .text = fmt::format("{:.1f} ({:.1f} to {:.1f}), {:.1f} failures expected",
                                             time.value, time.low, time.high, answer.failures),
                         .parts = {{"training", time.value * answer.goodput},
                                   {"failures and saves", time.value * lost}},
                         .low = time.low,
                         .high = time.high});
  }
  page.bars(cost);
  page.bars(days);
  for (const OfferFamily& family : families_of(answers)) {
    add_family(family, answers, page);
  }
  page.heading("The offers");
  page.table(budget_table(answers));
  for (const std::string& line : budget_remarks(request, answers)) {
    page.text(line);
  }
  page.heading("What was asked");
  page.text(fmt::format(
      "Failures: {} ({:g} per 1000 node-days; {}). Restart {}. {} simulated runs "
      "an offer, seed {}.",
      request.failures.name, request.failures.per_1000_node_days, request.failures.source,
      duration_text(request.restart_seconds), request.trials, request.seed));
  if (!answers.empty()) {
    add_provenance(answers.front().job, page);
  }
  return page;
}

}  // namespace trireme::tools
