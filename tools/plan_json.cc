// What `plan` answers as JSON: its keys are fixed (docs/json_keys.md).
#include <nlohmann/json.hpp>

#include "planner/plan/rules.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "tools/switches_report.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;
using planner::RankedPlan;

Json ranked_json(const Job& job, const PlanReport& report, const RankedPlan& plan) {
  Json json = {{"layout", layout_json(plan.plan)},      {"step_seconds", plan.step_seconds},
               {"low_seconds", plan.low_seconds},       {"high_seconds", plan.high_seconds},
               {"peak_allocated_gib", plan.memory_gib}, {"fit", to_string(plan.fit)},
               {"complexity", plan.complexity}};
  if (report.dollars_per_gpu_hour > 0) {
    json["dollars_per_step"] = dollars_per_step(job, report, plan.step_seconds);
  }
  return json;
}

Json rejected_json(const std::vector<planner::Rejection>& rejected) {
  Json json = Json::array();
  for (const planner::Rejection& rejection : rejected) {
    json.push_back(
        {{"rule", planner::to_string(rejection.rule)},
         {"count", rejection.count},
         {"example",
          {{"layout", planner::short_form(rejection.example)}, {"detail", rejection.detail}}}});
  }
  return json;
}

}  // namespace

void print_plan_json(const Console& console, const Job& job, const PlanReport& report) {
  const planner::SearchResult& result = report.result;
  const auto estimates = [&](const std::vector<Estimate>& list) {
    Json json = Json::array();
    for (const Estimate& estimate : list) {
      json.push_back(estimate_json(job, estimate));
    }
    return json;
  };
  const auto ranked = [&](const std::vector<RankedPlan>& list) {
    Json json = Json::array();
    for (const RankedPlan& plan : list) {
      json.push_back(ranked_json(job, report, plan));
    }
    return json;
  };
  Json json = {{"best", result.best ? estimate_json(job, *result.best) : Json()},
               {"alternatives", estimates(result.alternatives)},
               {"pareto", ranked(result.pareto)},
               {"space", result.space},
               {"evaluated", result.evaluated},
               {"pruned_by_bound", result.pruned_by_bound},
               {"feasible", result.feasible},
               {"ties", ranked(result.ties)},
               {"search_seconds", result.search_seconds},
               {"idle_gpus", report.idle_gpus},
               {"rejected", rejected_json(result.rejected)}};
  json["switches"] = switches_json(report.switches);
  json["recommendation"] = report.reason.empty() ? Json() : Json(report.reason);
  json["reasons"] = report.reasons;
  json["remarks"] = report.remarks;
  if (!result.best) {
    json["would_fit"] = Json::array();
    for (const Advice& advice : report.would_fit) {
      json["would_fit"].push_back(
          {{"change", advice.change}, {"detail", advice.detail}, {"fit", to_string(advice.fit)}});
    }
  }
  json["elsewhere"] = Json::array();
  for (const Elsewhere& one : report.elsewhere) {
    json["elsewhere"].push_back(
        {{"program", one.program},
         {"framework", one.framework},
         {"layout", one.layout.empty() ? Json() : Json(one.layout)},
         {"step_seconds", one.layout.empty() ? Json() : Json(one.step_seconds)},
         {"reason", one.reason}});
  }
  if (report.standing) {
    json["against"] = {{"estimate", estimate_json(job, report.standing->estimate)},
                       {"rank", report.standing->rank},
                       {"of", report.standing->of},
                       {"step_ratio", report.standing->ratio},
                       {"would_fit", report.standing->would_fit}};
  }
  json["at_risk"] = result.at_risk ? estimate_json(job, *result.at_risk) : Json();
  json["nearest_misses"] = Json::array();
  for (const Estimate& miss : result.nearest_misses) {
    json["nearest_misses"].push_back({{"layout", layout_json(miss.plan)},
                                      {"detail", miss_text(miss.memory)},
                                      {"missing_gib", missing_gib(miss.memory)}});
  }
  if (report.goal == planner::Goal::kUtility) {
    json["weights"] = {{"throughput", report.weights.throughput},
                       {"memory", report.weights.memory},
                       {"complexity", report.weights.complexity}};
  }
  if (report.dollars_per_gpu_hour > 0 && result.best) {
    json["dollars_per_step"] = dollars_per_step(job, report, result.best->time.step_seconds);
  }
  print_json(console, "plan", json);
}

}  // namespace trireme::tools
