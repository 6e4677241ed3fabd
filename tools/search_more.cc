#include "tools/search_more.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "planner/plan/rules.h"
#include "planner/search/space.h"
#include "tools/report.h"
#include "tools/request.h"
#include "tools/simulation.h"
#include "tools/switches_report.h"

namespace trireme::tools {
namespace {

using planner::Comparison;
using planner::Constraint;
using planner::ConstraintAxis;
using planner::Estimate;
using planner::Job;
using planner::SearchOptions;
using planner::SearchResult;

// The best layout of each kind: what the closed form may order wrongly.
std::vector<Estimate> kinds_of(const Job& job, const SearchOptions& search,
                               const SearchResult& result) {
  const planner::Plan& best = result.best->plan;
  const Constraint no_pipeline{ConstraintAxis::kPipeline, Comparison::kEqual, 1};
  std::vector<std::vector<Constraint>> kinds;
  if (best.pipeline > 1) {
    const Constraint same{ConstraintAxis::kPipeline, Comparison::kEqual, best.pipeline};
    kinds.push_back({same, {ConstraintAxis::kVirtual, Comparison::kEqual, 1}});
    kinds.push_back({same, {ConstraintAxis::kVirtual, Comparison::kEqual, 2}});
    kinds.push_back({same,
                     {ConstraintAxis::kVirtual, Comparison::kGreater, 2},
                     {ConstraintAxis::kVirtual, Comparison::kLessEqual, 4}});
    kinds.push_back({same, {ConstraintAxis::kVirtual, Comparison::kGreater, 4}});
    kinds.push_back({no_pipeline});
  }
  if (best.tensor > 1) {
    kinds.push_back({{ConstraintAxis::kTensor, Comparison::kEqual, 1}});
  }
  std::vector<Estimate> found;
  for (const std::vector<Constraint>& kind : kinds) {
    SearchOptions options = search;
    options.best_only = true;
    options.keep_evaluated = false;
    options.progress = {};
    options.goal = options.goal == planner::Goal::kUtility ? planner::Goal::kTime : options.goal;
    options.constraints.insert(options.constraints.end(), kind.begin(), kind.end());
    if (auto one = planner::search(job, options).best) {
      found.push_back(std::move(*one));
    }
  }
  return found;
}

void add_new(std::vector<Estimate>& all, Estimate one) {
  if (std::none_of(all.begin(), all.end(), [&](const Estimate& e) { return e.plan == one.plan; })) {
    all.push_back(std::move(one));
  }
}

// A layout that does not say how layers which no number of stages divides lie in its chunks: with
// the split that the search finds best. As it is where there is none.
planner::Plan with_stages(const Job& job, planner::Plan plan) {
  plan.micro_batches =
      std::max<std::int64_t>(1, job.global_batch / (plan.data_parallel() * plan.micro_batch));
  const auto broken = planner::check_plan(job, plan);
  if (!broken || broken->rule != planner::Rule::kLayersDivide || !plan.stage_layers.empty()) {
    return plan;
  }
  SearchOptions search;
  search.best_only = true;
  for (const auto& [axis, degree] : {std::pair{ConstraintAxis::kTensor, plan.tensor},
                                     {ConstraintAxis::kPipeline, plan.pipeline},
                                     {ConstraintAxis::kVirtual, plan.virtual_pipeline},
                                     {ConstraintAxis::kContext, plan.context},
                                     {ConstraintAxis::kExpert, plan.expert},
                                     {ConstraintAxis::kSharded, plan.sharded},
                                     {ConstraintAxis::kReplicas, plan.replicas},
                                     {ConstraintAxis::kMicroBatch, plan.micro_batch}}) {
    search.constraints.push_back({axis, Comparison::kEqual, degree});
  }
  if (plan.expert_tensor > 0) {
    search.constraints.push_back(
        {ConstraintAxis::kExpertTensor, Comparison::kEqual, plan.expert_tensor});
  }
  search.fixed.recompute = plan.recompute;
  // What the layout has none of is no wish.
  if (plan.data_parallel() > 1) {
    search.fixed.sharding = plan.sharding;
  }
  if (plan.pipeline > 1) {
    search.fixed.schedule = plan.schedule;
  }
  if (plan.tensor > 1) {
    search.fixed.sequence_parallel = plan.sequence_parallel;
  }
  if (plan.recompute == planner::Recompute::kFull) {
    search.fixed.recompute_layers = plan.recompute_layers;
  }
  if (plan.recompute == planner::Recompute::kSelective) {
    search.fixed.recompute_modules = plan.recompute_modules;
  }
  const SearchResult found = planner::search(job, search);
  return found.best                     ? found.best->plan
         : found.nearest_misses.empty() ? plan
                                        : found.nearest_misses.front().plan;
}

}  // namespace

std::vector<bool> refine(const Job& job, std::int64_t count, const SearchOptions& search,
                         SearchResult& result) {
  if (!result.best) {
    return {};
  }
  const std::size_t shown = 1 + result.alternatives.size();
  std::vector<Estimate> all = {*result.best};
  if (count > 1) {
    for (Estimate& one : kinds_of(job, search, result)) {
      add_new(all, std::move(one));
    }
  }
  for (Estimate& one : result.alternatives) {
    add_new(all, std::move(one));
  }
  std::vector<std::pair<Estimate, bool>> rows;  // with whether it was simulated
  rows.reserve(all.size());
  for (Estimate& one : all) {
    rows.emplace_back(std::move(one), false);
  }
  const auto refined = std::min<std::size_t>(static_cast<std::size_t>(count), rows.size());
  for (std::size_t i = 0; i < refined; ++i) {
    sim::SimulateOptions simulation;
    simulation.record_trace = false;
    try {
      rows[i] = {simulate_plan(job, rows[i].first.plan, simulation).estimate, true};
    } catch (const Error&) {
      continue;
    }
  }
  if (search.goal == planner::Goal::kTime || search.goal == planner::Goal::kCost) {
    std::stable_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(refined),
                     [](const auto& a, const auto& b) {
                       return a.first.time.step_seconds < b.first.time.step_seconds;
                     });
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.first.memory.fit < b.first.memory.fit;
    });
  }
  rows.resize(std::min(rows.size(), std::max(shown, refined)));
  result.best = rows.front().first;
  result.alternatives.clear();
  std::vector<bool> simulated = {rows.front().second};
  for (std::size_t i = 1; i < rows.size(); ++i) {
    result.alternatives.push_back(std::move(rows[i].first));
    simulated.push_back(rows[i].second);
  }
  return simulated;
}

Standing standing_of(const Job& job, SearchOptions search, const std::string& layout,
                     const std::vector<std::string>& given) {
  LayoutOptions options;
  options.layout = layout;
  planner::Plan plan = with_stages(job, make_plan(options, job.cluster.gpus));
  Job asked = job;
  complete(asked, plan);
  Standing standing;
  planner::Estimator(job).estimate(plan, standing.estimate);
  if (standing.estimate.memory.fit == planner::Fit::kNo) {
    standing.would_fit = fitting_switches(job, plan, given);
  }
  search.alternatives = 1'000'000;
  search.keep_evaluated = false;
  search.progress = {};
  const SearchResult all = planner::search(job, search);
  if (!all.best) {
    return standing;
  }
  const double seconds = standing.estimate.time.step_seconds;
  const auto own = planner::degrees_of(plan);
  const auto faster = [&](const Estimate& one) {
    return planner::degrees_of(one.plan) != own && one.time.step_seconds < seconds;
  };
  standing.rank += (faster(*all.best) ? 1 : 0) +
                   std::count_if(all.alternatives.begin(), all.alternatives.end(), faster);
  standing.of = 1 + static_cast<std::int64_t>(all.alternatives.size());
  standing.ratio = seconds / all.best->time.step_seconds;
  return standing;
}

void write_plan_csv(const std::string& path, const SearchResult& result) {
  std::string text =
      "layout,tp,pp,vpp,cp,ep,etp,fsdp,dp,sharding,micro_batch,micro_batches,recompute,schedule,"
      "step_seconds,low_seconds,high_seconds,peak_allocated_gib,fit,complexity\n";
  for (const planner::RankedPlan& one : result.evaluated_plans) {
    const planner::Plan& p = one.plan;
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{},{}\n",
        planner::short_form(p), p.tensor, p.pipeline, p.virtual_pipeline, p.context, p.expert,
        p.expert_tensor > 0 ? p.expert_tensor : p.tensor, p.sharded, p.replicas,
        to_string(p.sharding), p.micro_batch, p.micro_batches, to_string(p.recompute),
        to_string(p.schedule), one.step_seconds, one.low_seconds, one.high_seconds, one.memory_gib,
        to_string(one.fit), one.complexity);
  }
  write_file_atomically(path, text);
}

}  // namespace trireme::tools
