#include "tools/simulation.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "planner/cost/behaviour_fit.h"
#include "planner/lower/lower.h"
#include "planner/walk/step_times.h"

namespace trireme::tools {
namespace {

using planner::BehaviourFit;
using sim::Activity;

// Mean over the ranks of what each instant of the step went into.
planner::TimeItems exposed_items(const sim::Simulation& simulation, bool pipelined) {
  planner::TimeItems items;
  double ranks = 0;
  for (const sim::ActorReport& actor : simulation.actors) {
    ranks += static_cast<double>(actor.ranks);
  }
  for (const sim::ActorReport& actor : simulation.actors) {
    const double weight = static_cast<double>(actor.ranks) / ranks;
    const auto spent = [&](Activity activity) {
      return weight * to_seconds(actor.spent[static_cast<std::size_t>(activity)]).value;
    };
    items.compute += spent(Activity::kCompute);
    items.optimizer += spent(Activity::kOptimizer) + spent(Activity::kOptimizerExchange);
    items.tensor_parallel += spent(Activity::kTensor);
    items.context_parallel += spent(Activity::kContext);
    items.expert_parallel += spent(Activity::kExpert);
    items.data_parallel += spent(Activity::kData);
    items.pipeline_p2p += spent(Activity::kPipeline);
    items.other += spent(Activity::kOther);
    // A rank that neither computes nor communicates waits for another stage, or for its host.
    (pipelined ? items.pipeline_bubble : items.other) += spent(Activity::kIdle);
  }
  return items;
}

void scale(planner::Throughput& throughput, double ratio) {
  throughput.tokens_per_second *= ratio;
  throughput.tokens_per_second_per_gpu *= ratio;
  throughput.model_tflops_per_gpu *= ratio;
  throughput.mfu *= ratio;
  throughput.hfu *= ratio;
  throughput.mfu_full_attention *= ratio;
}

}  // namespace

SimulatedStep simulate_plan(const planner::Job& job, const planner::Plan& plan,
                            const sim::SimulateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const BehaviourFit fit = planner::behaviour_fit(job);
  SimulatedStep step;
  step.program = planner::lower(job, plan);
  step.times = planner::time_ops(job, step.program);
  sim::SimulateOptions with_overlap = options;
  // A share s of the overlapped time is lost: compute runs at 1 - s of its speed, takes 1 / (1 - s)
  // times as long.
  const double lost = std::clamp(fit.overlap_slowdown, 0.0, 0.9);
  with_overlap.compute_slowdown = lost / (1 - lost);
  step.simulation = sim::simulate(step.program, step.times, job.cluster, with_overlap);
  step.constant_seconds = fit.step_seconds;
  step.step_seconds = to_seconds(step.simulation.step).value;
  step.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  planner::Estimator(job).estimate(plan, step.estimate);
  planner::TimeEstimate& time = step.estimate.time;
  const double ratio = step.step_seconds / time.step_seconds;
  scale(step.estimate.throughput, 1 / ratio);
  time.low_seconds *= ratio;
  time.high_seconds *= ratio;
  time.step_seconds = step.step_seconds;
  time.exposed = exposed_items(step.simulation, plan.pipeline > 1);
  // The hosts issue nothing before what the framework does once a step is done (time_ops).
  if (plan.pipeline > 1) {
    time.exposed.other += fit.step_seconds;
    time.exposed.pipeline_bubble -= fit.step_seconds;
  }
  return step;
}

double simulated_seconds(const planner::Job& job, const planner::Plan& plan) {
  sim::SimulateOptions options;
  options.record_trace = false;
  return simulate_plan(job, plan, options).step_seconds;
}

std::vector<sim::LinkReport> busiest_links(const sim::Simulation& simulation, std::size_t count) {
  std::vector<sim::LinkReport> links = simulation.links;
  std::stable_sort(links.begin(), links.end(),
                   [](const auto& a, const auto& b) { return a.utilisation > b.utilisation; });
  while (!links.empty() && (links.size() > count || links.back().utilisation <= 0)) {
    links.pop_back();
  }
  return links;
}

Json simulation_json(const planner::Job& job, const SimulatedStep& step) {
  Json json = estimate_json(job, step.estimate);
  json["events"] = step.simulation.events;
  json["simulation_seconds"] = step.wall_seconds;
  Json ranks = Json::array();
  for (const sim::ActorReport& actor : step.simulation.actors) {
    ranks.push_back(
        {{"rank", index_of(actor.rank)},
         {"stage", index_of(actor.role)},
         {"ranks", actor.ranks},
         {"busy_fraction", to_seconds(actor.busy).value / step.step_seconds},
         {"exposed_communication_seconds", to_seconds(actor.exposed_communication).value}});
  }
  json["ranks"] = ranks;
  Json links = Json::array();
  for (const sim::LinkReport& link : busiest_links(step.simulation, 16)) {
    links.push_back({{"link", link.name},
                     {"links", link.links},
                     {"capacity_gbytes_per_second", link.capacity.value / 1e9},
                     {"utilisation", link.utilisation}});
  }
  json["links"] = links;
  if (!step.simulation.deadlock.empty()) {
    json["deadlock"] = step.simulation.deadlock;
  }
  return json;
}

}  // namespace trireme::tools
