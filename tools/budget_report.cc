#include "tools/budget_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/plan/plan.h"
#include "tools/scaling_curves.h"
#include "tools/table.h"
#include "topologies/node_groups.h"

namespace trireme::tools {
namespace {

Json range_json(const Range& range) {
  return {{"value", range.value}, {"low", range.low}, {"high", range.high}};
}

Json offer_json(const OfferAnswer& answer) {
  Json json = {{"name", answer.offer.name},
               {"gpus", answer.job.cluster.gpus},
               {"spare_gpus", answer.spare_gpus},
               {"gpu", topologies::card_names(answer.job.cluster)},
               {"dollars_per_gpu_hour", answer.offer.dollars_per_gpu_hour},
               {"losses_per_node_hour", answer.offer.losses_per_node_hour},
               {"fits", answer.estimate.has_value()}};
  if (!answer.answered()) {
    json["reason"] = answer.reason;
    json["layout"] = nullptr;
    return json;
  }
  const planner::Estimate& estimate = *answer.estimate;
  json["layout"] = planner::short_form(estimate.plan);
  json["tokens"] = answer.tokens;
  json["step_seconds"] = {{"value", estimate.time.step_seconds},
                          {"low", estimate.time.low_seconds},
                          {"high", estimate.time.high_seconds}};
  json["days"] = range_json(answer.days);
  json["gpu_hours"] = answer.gpu_hours;
  json["dollars"] = range_json(answer.dollars);
  json["energy_kwh"] = answer.energy_kwh;
  json["goodput"] = answer.goodput;
  json["checkpoint_interval_seconds"] = answer.interval_seconds;
  json["daly_interval_seconds"] = answer.daly_seconds;
  json["young_interval_seconds"] = answer.young_seconds;
  json["checkpoint"] = {{"bytes", answer.checkpoint.bytes},
                        {"save_seconds", answer.checkpoint.save_seconds},
                        {"durable_seconds", answer.checkpoint.durable_seconds},
                        {"load_seconds", answer.checkpoint.load_seconds}};
  json["failures_expected"] = answer.failures;
  json["mean_between_failures_seconds"] =
      answer.mean_between_seconds > 0 ? Json(answer.mean_between_seconds) : Json(nullptr);
  if (answer.spares) {
    const SparesWorth& worth = *answer.spares;
    json["spares_worth"] = {
        {"days_without", std::isfinite(worth.days_without) ? Json(worth.days_without) : Json()},
        {"spares", worth.spares},
        {"days", std::isfinite(worth.days) ? Json(worth.days) : Json()},
        {"dollars", std::isfinite(worth.days) ? Json(worth.dollars) : Json()}};
  }
  json["before_deadline"] = answer.in_time;
  json["within_dollars"] = answer.in_dollars;
  json["mfu"] = estimate.throughput.mfu;
  json["memory_gib"] = estimate.memory.allocated_gib;
  json["remarks"] = answer.sizes;
  return json;
}

Json name_json(const std::vector<OfferAnswer>& answers, std::ptrdiff_t index) {
  return index < 0 ? Json(nullptr) : Json(answers[static_cast<std::size_t>(index)].offer.name);
}

// Days, which head the column; where they are less than one, each number has its unit.
std::string days_cell(const Range& days) {
  return days.value < 1 ? fmt::format("{} ({}-{})", days_text(days.value), days_text(days.low),
                                      days_text(days.high))
                        : fmt::format("{:.1f} ({:.1f}-{:.1f})", days.value, days.low, days.high);
}

std::vector<std::string> row_of(const OfferAnswer& answer, bool prices) {
  if (!answer.answered()) {
    std::vector<std::string> row = {answer.offer.name, answer.reason};
    row.resize(prices ? 10 : 9);
    return row;
  }
  std::vector<std::string> row = {
      answer.offer.name, planner::short_form(answer.estimate->plan),
      fmt::format("{}{}", answer.job.cluster.gpus,
                  answer.spare_gpus > 0 ? fmt::format(" + {}", answer.spare_gpus) : ""),
      days_cell(answer.days), grouped(answer.gpu_hours)};
  if (prices) {
    row.push_back(fmt::format("${} ({}-{})", dollars_text(answer.dollars.value),
                              dollars_text(answer.dollars.low), dollars_text(answer.dollars.high)));
  }
  row.push_back(grouped(answer.energy_kwh));
  row.push_back(fmt::format("{:.1f} %", 100 * answer.goodput));
  row.push_back(answer.interval_seconds > 0 ? span_text(answer.interval_seconds) : "-");
  row.push_back(fmt::format("{:.1f}", answer.failures));
  return row;
}

Json family_json(const OfferFamily& family, const std::vector<OfferAnswer>& answers) {
  Json points = Json::array();
  for (const FamilyPoint& point : family.points) {
    points.push_back({{"name", answers[point.answer].offer.name},
                      {"gpus", answers[point.answer].job.cluster.gpus},
                      {"speedup", point.speedup},
                      {"efficiency", point.efficiency}});
  }
  return {{"offers", family.name},
          {"points", points},
          {"knee_gpus", family.knee_gpus ? Json(*family.knee_gpus) : Json(nullptr)}};
}

}  // namespace

std::vector<OfferFamily> families_of(const std::vector<OfferAnswer>& answers) {
  std::vector<OfferFamily> families;
  std::vector<std::vector<Speed>> speeds;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const OfferAnswer& answer = answers[i];
    if (answer.offer.family.empty() || !answer.answered()) {
      continue;
    }
    if (families.empty() || families.back().name != answer.offer.family) {
      families.push_back({answer.offer.family, {}, std::nullopt});
      speeds.emplace_back();
    }
    const double rate = answer.tokens / answer.days.value;
    speeds.back().push_back({static_cast<double>(answer.job.cluster.gpus), rate});
    const Speed& first = speeds.back().front();
    families.back().points.push_back(
        {i, rate / first.rate, rate / first.rate * first.gpus / speeds.back().back().gpus});
  }
  for (std::size_t i = 0; i < families.size(); ++i) {
    if (const auto knee = knee_of(speeds[i])) {
      families[i].knee_gpus = std::llround(speeds[i][*knee].gpus);
    }
  }
  return families;
}

BudgetChoice choose(const std::vector<OfferAnswer>& answers) {
  BudgetChoice choice;
  const auto better = [&](std::ptrdiff_t& best, std::size_t at, auto measure) {
    if (best < 0 || measure(answers[at]) < measure(answers[static_cast<std::size_t>(best)])) {
      best = static_cast<std::ptrdiff_t>(at);
    }
  };
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].answered()) {
      continue;
    }
    better(choice.least, i, [](const OfferAnswer& a) { return a.job.cluster.gpus; });
    if (answers[i].in_time && answers[i].offer.dollars_per_gpu_hour > 0) {
      better(choice.cheapest, i, [](const OfferAnswer& a) { return a.dollars.value; });
    }
    if (answers[i].in_dollars) {
      better(choice.fastest, i, [](const OfferAnswer& a) { return a.days.value; });
    }
  }
  return choice;
}

namespace {

// With --mtbf the offers' own `mean_between_failures_seconds` are what was asked for, whatever
// their size: no rate of nodes is behind them.
Json failure_rate_json(const BudgetRequest& request) {
  if (request.mean_between_seconds) {
    return {{"name", "mtbf"}, {"per_1000_node_days", nullptr}, {"source", failures_text(request)}};
  }
  return {{"name", request.failures.name},
          {"per_1000_node_days", request.failures.per_1000_node_days},
          {"source", request.failures.source}};
}

Json budget_json(const BudgetRequest& request, const std::vector<OfferAnswer>& answers) {
  Json offers = Json::array();
  for (const OfferAnswer& answer : answers) {
    offers.push_back(offer_json(answer));
  }
  Json pairs = Json::array();
  for (const auto& [a, b] : alike(answers)) {
    pairs.push_back({answers[a].offer.name, answers[b].offer.name});
  }
  Json scaling = Json::array();
  for (const OfferFamily& family : families_of(answers)) {
    scaling.push_back(family_json(family, answers));
  }
  const BudgetChoice choice = choose(answers);
  const std::int64_t batch = answers.empty() ? 0 : answers.front().job.global_batch;
  return {{"tokens", request.tokens ? Json(*request.tokens) : Json(nullptr)},
          {"global_batch", batch},
          {"global_batch_assumed", !request.job.global_batch.has_value()},
          {"framework", answers.empty() ? Json() : Json(full_name(answers.front().job.framework))},
          {"sequence", answers.empty() ? 0 : answers.front().job.sequence},
          {"failure_rate", failure_rate_json(request)},
          {"restart_seconds", request.restart_seconds},
          {"trials", request.trials},
          {"seed", request.seed},
          {"offers", offers},
          {"cheapest_before_deadline", name_json(answers, choice.cheapest)},
          {"fastest_within_dollars", name_json(answers, choice.fastest)},
          {"least_machine", name_json(answers, choice.least)},
          {"indistinguishable", pairs},
          {"fastest_indistinguishable", name_json(answers, fastest_alike(answers, choice))},
          {"scaling", scaling}};
}

}  // namespace

void print_budget_json(const Console& console, const BudgetRequest& request,
                       const std::vector<OfferAnswer>& answers) {
  print_json(console, "budget", budget_json(request, answers));
}

Table budget_table(const std::vector<OfferAnswer>& answers) {
  const bool prices = has_prices(answers);
  Table table;
  table.text_columns = 2;
  table.head = {"offer", "layout", "GPUs", "days", "GPU-hours"};
  if (prices) {
    table.head.emplace_back("dollars");
  }
  for (const char* column : {"kWh", "goodput", "save every", "failures"}) {
    table.head.emplace_back(column);
  }
  for (const OfferAnswer& answer : answers) {
    table.rows.push_back(row_of(answer, prices));
  }
  return table;
}

void print_budget(const Console& console, const BudgetRequest& request,
                  const std::vector<OfferAnswer>& answers) {
  if (!answers.empty()) {
    const OfferAnswer& first = answers.front();
    fmt::print(console.out, "{} on {} tokens; sequence {}, global batch {}; run by {}{}\n",
               first.job.model.name,
               request.tokens ? count_text(*request.tokens) : "as many as fit of its",
               first.job.sequence, first.job.global_batch, planner::full_name(first.job.framework),
               request.job.framework.empty()
                   ? ", this project's own runtime (--framework names another)"
                   : "");
    fmt::print(console.out, "{}\n\n", assumptions_text(request));
  }
  print_table(console, budget_table(answers));
  fmt::print(console.out, "\n");
  for (const std::string& line : budget_remarks(request, answers)) {
    fmt::print(console.out, "{}\n", line);
  }
}

}  // namespace trireme::tools
