#include "tools/whatif_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/fit_word.h"
#include "tools/report.h"
#include "tools/switches_report.h"
#include "tools/whatif_notes.h"

namespace trireme::tools {
namespace {

Json elasticity_json(const Elasticities& elasticity) {
  Json json = Json::object();
  for (const auto& [name, value] : elasticity) {
    json[name] = value;
  }
  return json;
}

Json layout_text_json(const std::optional<planner::Estimate>& estimate) {
  return estimate ? Json(planner::short_form(estimate->plan)) : Json();
}

void add_price(const WhatIfCase& base, const WhatIfCase& mine, Json& entry) {
  if (!mine.estimate) {
    return;
  }
  if (mine.dollars_per_gpu_hour > 0) {
    entry["dollars_per_gpu_hour"] = mine.dollars_per_gpu_hour;
    entry["dollars_per_million_tokens"] = dollars_per_million_tokens(mine);
  }
  if (base.dollars_per_gpu_hour > 0) {
    entry["break_even_dollars_per_gpu_hour"] = break_even_price(base, mine);
  }
}

Json case_json(const WhatIfCase& base, const WhatIfCase& mine) {
  Json change = Json::object();
  for (const Change& part : mine.changes) {
    change[part.name] = part.value;
  }
  Json entry = {{"change", change},
                {"estimate", mine.estimate ? estimate_json(mine.job, *mine.estimate) : Json()},
                {"step_ratio", mine.estimate ? Json(mine.step_ratio) : Json()},
                {"notes", mine.notes}};
  if (mine.estimate) {
    entry["bottleneck"] = bottleneck_of(mine.estimate->time.exposed);
    entry["elasticity"] = elasticity_json(mine.elasticity);
  }
  add_price(base, mine, entry);
  return entry;
}

Json curve_json(const ScalingCurve& curve) {
  Json points = Json::array();
  for (const ScalingPoint& point : curve.points) {
    const auto& estimate = point.answer.estimate;
    Json entry = {{"gpus", point.gpus},
                  {"global_batch", point.global_batch},
                  {"layout", layout_text_json(estimate)}};
    if (estimate) {
      entry["step_seconds"] = estimate->time.step_seconds;
      entry["low_seconds"] = estimate->time.low_seconds;
      entry["high_seconds"] = estimate->time.high_seconds;
      entry["tokens_per_second"] = estimate->throughput.tokens_per_second;
      entry["speedup"] = point.speedup;
      entry["efficiency"] = point.efficiency;
      entry["f19_seconds"] = point.f19_seconds;
    }
    points.push_back(std::move(entry));
  }
  return {{"points", points},
          {"knee_gpus", curve.knee_gpus ? Json(*curve.knee_gpus) : Json(nullptr)}};
}

Json layout_change_json(const LayoutChange& change) {
  return {
      {"resource", change.name},
      {"factor", change.factor},
      {"before", change.before},
      {"after", change.after},
      {"step_seconds", change.estimate ? Json(change.estimate->time.step_seconds) : Json(nullptr)}};
}

Json purchase_json(const Purchase& purchase) {
  const auto& estimate = purchase.answer.estimate;
  return {{"resource", purchase.name},
          {"value", purchase.value},
          {"reaches", purchase.reaches},
          {"layout", layout_text_json(estimate)},
          {"step_seconds", estimate ? Json(estimate->time.step_seconds) : Json(nullptr)},
          {"step_ratio", estimate ? Json(purchase.answer.step_ratio) : Json(nullptr)}};
}

template <typename Item, typename ToJson>
Json list_json(const std::vector<Item>& items, ToJson to_json) {
  Json list = Json::array();
  for (const Item& item : items) {
    list.push_back(to_json(item));
  }
  return list;
}

std::vector<std::string> row_of(const std::string& name, const WhatIfCase& mine) {
  if (!mine.estimate) {
    return {name, "none", "", "", "", "", "", ""};
  }
  const planner::Estimate& estimate = *mine.estimate;
  return {name,
          planner::short_form(estimate.plan),
          bottleneck_of(estimate.time.exposed),
          duration_text(estimate.time.step_seconds),
          fmt::format("{:.3f}", mine.step_ratio),
          grouped(estimate.throughput.tokens_per_second),
          fmt::format("{:.1f} GiB", estimate.memory.allocated_gib),
          fit_word(estimate.memory.fit)};
}

void print_section(const Console& console, const std::string& heading, const Table& table) {
  if (!table.rows.empty()) {
    fmt::print(console.out, "\n");
    print_heading(console, heading);
    print_table(console, table);
  }
}

void print_curve(const Console& console, const std::string& heading, const ScalingCurve& curve) {
  print_section(console, heading, scaling_table(curve));
  fmt::print(console.out, "{}\n", knee_text(curve));
}

}  // namespace

std::string case_name(const WhatIfCase& mine) {
  std::string name;
  for (const Change& change : mine.changes) {
    name += (name.empty() ? "" : ", ") + change.name + " " + change.value;
  }
  return name;
}

Table scaling_table(const ScalingCurve& curve) {
  Table table{.head = {"GPUs", "layout", "global batch", "step", "tokens/s", "speed-up",
                       "efficiency", "step by F19"},
              .rows = {},
              .text_columns = 2};
  for (const ScalingPoint& point : curve.points) {
    const auto& estimate = point.answer.estimate;
    std::vector<std::string> row = {fmt::format("{}", point.gpus), "none fits",
                                    fmt::format("{}", point.global_batch)};
    if (estimate) {
      row[1] = planner::short_form(estimate->plan);
      row.push_back(duration_text(estimate->time.step_seconds));
      row.push_back(grouped(estimate->throughput.tokens_per_second));
      row.push_back(fmt::format("{:.2f}", point.speedup));
      row.push_back(fmt::format("{:.1f} %", 100 * point.efficiency));
      row.push_back(duration_text(point.f19_seconds));
    }
    row.resize(table.head.size());
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string knee_text(const ScalingCurve& curve) {
  return curve.knee_gpus
             ? fmt::format(
                   "the knee is at {} GPUs: beyond it 1 % more of them buys less than 0.5 % "
                   "more speed",
                   *curve.knee_gpus)
         : curve.points.empty() || !curve.points.back().answer.estimate
             ? "no knee among the sizes that fit"
             : "no knee up to the last of these: more GPUs still pay";
}

Table layout_change_table(const std::vector<LayoutChange>& changes) {
  Table table{
      .head = {"resource", "before", "after", "at", "step there"}, .rows = {}, .text_columns = 3};
  for (const LayoutChange& change : changes) {
    table.rows.push_back(
        {change.name, change.before, change.after, fmt::format("{:.3f}x", change.factor),
         change.estimate ? duration_text(change.estimate->time.step_seconds) : "-"});
  }
  return table;
}

Table purchase_table(const std::vector<Purchase>& purchases) {
  Table table{.head = {"of", "enough", "layout", "step", "ratio"}, .rows = {}, .text_columns = 3};
  for (const Purchase& purchase : purchases) {
    const auto& estimate = purchase.answer.estimate;
    table.rows.push_back({purchase.name,
                          purchase.reaches ? purchase.value : "not even " + purchase.value,
                          estimate ? planner::short_form(estimate->plan) : "none fits",
                          estimate ? duration_text(estimate->time.step_seconds) : "-",
                          estimate ? fmt::format("{:.3f}", purchase.answer.step_ratio) : "-"});
  }
  return table;
}

Table price_table(const WhatIfAnswer& answer) {
  Table table{.head = {"case", "$ per GPU-hour", "$ per million tokens", "worth at most"},
              .rows = {}};
  const auto add = [&](const std::string& name, const WhatIfCase& mine) {
    const bool priced = mine.dollars_per_gpu_hour > 0;
    const double worth = break_even_price(answer.base, mine);
    if (mine.estimate && (priced || worth > 0)) {
      table.rows.push_back({name, priced ? fmt::format("{:.2f}", mine.dollars_per_gpu_hour) : "-",
                            priced ? fmt::format("{:.4f}", dollars_per_million_tokens(mine)) : "-",
                            worth > 0 ? fmt::format("{:.2f} per GPU-hour", worth) : "-"});
    }
  };
  add("base", answer.base);
  for (const WhatIfCase& mine : answer.cases) {
    add(case_name(mine), mine);
  }
  return table;
}

void print_whatif_json(const Console& console, const WhatIfAnswer& answer) {
  const WhatIfCase& base = answer.base;
  Json json = {{"base", estimate_json(base.job, *base.estimate)},
               {"bottleneck", bottleneck_of(base.estimate->time.exposed)},
               {"elasticity", elasticity_json(base.elasticity)},
               {"switches", switches_json(base.switches)}};
  add_price(base, base, json);
  json["cases"] =
      list_json(answer.cases, [&](const WhatIfCase& mine) { return case_json(base, mine); });
  if (answer.scaling) {
    json["scaling"] = {{"strong", curve_json(answer.scaling->strong)},
                       {"weak", curve_json(answer.scaling->weak)}};
  }
  if (!answer.ranges.empty()) {
    json["break_even"] = list_json(answer.layout_changes, layout_change_json);
  }
  if (answer.faster > 0) {
    json["faster"] = {{"share", answer.faster},
                      {"purchases", list_json(answer.purchases, purchase_json)},
                      {"remarks", answer.purchase_remarks}};
  }
  print_json(console, "whatif", json);
}

void print_whatif(const Console& console, const WhatIfAnswer& answer) {
  const WhatIfCase& base = answer.base;
  print_heading(console, job_text(base.job));
  print_switched_on(console, base.switches, "switched on");
  Table table{
      .head = {"case", "layout", "largest part", "step", "ratio", "tokens/s", "memory", "fits"},
      .rows = {row_of("base", base)},
      .text_columns = 3};
  for (const WhatIfCase& mine : answer.cases) {
    table.rows.push_back(row_of(case_name(mine), mine));
  }
  print_table(console, table);
  fmt::print(console.out, "\n");
  Table elastic{.head = {"1 % more of", "changes the base's step by"}, .rows = {}};
  for (const auto& [name, value] : base.elasticity) {
    elastic.rows.push_back({name, fmt::format("{:+.2f} %", value)});
  }
  print_table(console, elastic);
  print_section(console, "Prices", price_table(answer));
  if (answer.scaling) {
    print_curve(console, "Strong scaling: the same batch", answer.scaling->strong);
    print_curve(console, "Weak scaling: a batch that grows with the GPUs", answer.scaling->weak);
  }
  print_section(console, "Where another layout takes over",
                layout_change_table(answer.layout_changes));
  if (!answer.ranges.empty() && answer.layout_changes.empty()) {
    fmt::print(console.out, "\nno other layout takes over within the range\n");
  }
  print_section(console,
                fmt::format("For a step {:g} % shorter, of one thing alone", 100 * answer.faster),
                purchase_table(answer.purchases));
  for (const std::string& remark : answer.purchase_remarks) {
    fmt::print(console.out, "{}\n", remark);
  }
  bool first = true;
  for (std::size_t i = 0; i < answer.cases.size(); ++i) {
    for (const std::string& note : answer.cases[i].notes) {
      fmt::print(console.out, "{}{}: {}\n", first ? "\n" : "", table.rows[i + 1].front(), note);
      first = false;
    }
  }
}

}  // namespace trireme::tools
