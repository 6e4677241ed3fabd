#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "tools/page_parts.h"
#include "tools/pages.h"
#include "tools/report.h"
#include "tools/whatif_report.h"

namespace trireme::tools {
namespace {

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
    const std::string now = bare_layout(*mine);
    chart.lines[0].points.push_back(
        curve_point(mine->changes.front().value + ", " + now, number, mine->estimate->time));
    if (!layout.empty() && now != layout) {
      chart.marks.push_back({number, "from here " + now});
    }
    layout = now;
  }
  page.lines(chart);
}

}  // namespace

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
                          gib_text(mine.estimate->memory.allocated_gib), notes});
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
  for (const std::string& remark : answer.purchase_remarks) {
    page.text(remark);
  }
  page.heading("Elasticities of the base: what 10 % more buys");
  Table elastic{.head = {"10 % more of", "changes the step by"}, .rows = {}};
  for (const auto& [name, value] : base.elasticity) {
    elastic.rows.push_back({name, fmt::format("{:+.1f} %", 10 * value)});
  }
  page.table(elastic);
  add_provenance(base.job, page);
  return page;
}

}  // namespace trireme::tools
