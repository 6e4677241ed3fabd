#include "tools/row_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "planner/cost/pipeline_time.h"
#include "planner/cost/time.h"
#include "planner/plan/rules.h"
#include "sim/blame.h"
#include "tools/simulation.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using sim::Blame;
using sim::RankBlame;

double seconds_of(const RankBlame& rank, Blame blame) {
  return to_seconds(rank.of(blame)).value;
}

double busy_of(const RankBlame& rank) {
  return seconds_of(rank, Blame::kCompute) + seconds_of(rank, Blame::kOptimizer);
}

// The rank that the closed form follows: the one with most to compute.
const RankBlame& busiest(const std::vector<RankBlame>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const auto& a, const auto& b) { return busy_of(a) < busy_of(b); });
}

// How uneven the stages are: the busiest over the mean, less one.
double unevenness(const std::vector<RankBlame>& ranks) {
  double sum = 0;
  for (const RankBlame& rank : ranks) {
    sum += busy_of(rank);
  }
  return busy_of(busiest(ranks)) * static_cast<double>(ranks.size()) / sum - 1;
}

std::string share_text(double seconds, double of) {
  return fmt::format("{:.1f} % of the step", 100 * seconds / of);
}

// Where the closed form waits for the host, every stage fills and drains with it; a simulated host
// goes on issuing while its stage waits for the others.
Cause bubble_cause(const std::vector<RankBlame>& ranks, const planner::Plan& plan, double waited,
                   const planner::TimeItems& estimated) {
  const double uneven = unevenness(ranks);
  const bool runs_ahead =
      waited < estimated.pipeline_bubble && estimated.other > 0.1 * estimated.total();
  return {runs_ahead      ? "hosts that issue ahead while their stage waits"
          : uneven > 0.02 ? "pipeline fill with uneven stages"
                          : "waiting for neighbouring stages",
          waited, estimated.pipeline_bubble,
          fmt::format("{} stages, {} micro-batches, the busiest {:.1f} % over the mean",
                      plan.pipeline, plan.micro_batches, 100 * uneven)};
}

std::string busiest_link(const SimulatedStep& step) {
  const std::vector<sim::LinkReport> links = busiest_links(step.simulation, 1);
  return links.empty() ? "no link carries anything"
                       : fmt::format("busiest link {} at {:.0f} %", links.front().name,
                                     100 * links.front().utilisation);
}

// Every kind of time of the busiest rank beside the closed form's of the same kind; they add up to
// the two steps.
std::vector<Cause> compare_kinds(const SimulatedStep& step, const planner::Plan& plan,
                                 const planner::TimeItems& estimated, bool blocking) {
  const std::vector<RankBlame> ranks =
      sim::blame_of(step.program, step.times, step.simulation.trace);
  const RankBlame& rank = busiest(ranks);
  const auto spent = [&](Blame blame) { return seconds_of(rank, blame); };
  const auto share = [&](Blame blame) { return share_text(spent(blame), step.step_seconds); };
  // The closed form counts slow compute beside collectives as data-parallel time.
  return {
      {"kernels of the step program", spent(Blame::kCompute), estimated.compute,
       share(Blame::kCompute)},
      {"optimizer pass", spent(Blame::kOptimizer), estimated.optimizer, share(Blame::kOptimizer)},
      {"exposed tensor-parallel collectives", spent(Blame::kTensor), estimated.tensor_parallel,
       share(Blame::kTensor)},
      {"exposed context-parallel exchange", spent(Blame::kContext), estimated.context_parallel,
       share(Blame::kContext)},
      {"exposed expert exchange", spent(Blame::kExpert), estimated.expert_parallel,
       share(Blame::kExpert)},
      {estimated.data_parallel > spent(Blame::kData)
           ? "gathers, reductions and copies that the program hides or does not have"
           : "exposed prefetch or reduction",
       spent(Blame::kData), estimated.data_parallel, share(Blame::kData)},
      {"kernels slowed beside communication", spent(Blame::kInterference), 0,
       share(Blame::kInterference)},
      {blocking ? "blocking sends and receives" : "exposed sends and receives",
       spent(Blame::kExchange), estimated.pipeline_p2p, share(Blame::kExchange)},
      {"shared links", spent(Blame::kContention), 0, busiest_link(step)},
      {spent(Blame::kHost) > estimated.other ? "launch-bound stream"
                                             : "launches hidden behind kernels",
       spent(Blame::kHost), estimated.other, share(Blame::kHost)},
      bubble_cause(ranks, plan, spent(Blame::kPeer), estimated),
  };
}

// The kinds that pull the simulated step away from the closed form, until they tell most of it.
std::vector<Cause> causes_of(std::vector<Cause> kinds, double difference) {
  const auto pull = [&](const Cause& cause) {
    return (cause.seconds - cause.estimated_seconds) * (difference > 0 ? 1 : -1);
  };
  std::stable_sort(kinds.begin(), kinds.end(),
                   [&](const Cause& a, const Cause& b) { return pull(a) > pull(b); });
  std::vector<Cause> causes;
  double told = 0;
  for (Cause& kind : kinds) {
    if (pull(kind) <= 0.1 * std::abs(difference) || told >= 0.8 * std::abs(difference)) {
      break;
    }
    told += pull(kind);
    causes.push_back(std::move(kind));
  }
  return causes;
}

}  // namespace

RowSimulation simulate_row(const planner::ValidationCase& one, const topologies::Profile& profile) {
  RowSimulation result;
  planner::Job job = one.found.job;
  job.profile = profile;
  const planner::Plan& plan = one.found.plan;
  planner::TimeEstimate estimate;
  try {
    planner::TimeModel(job).estimate(plan, estimate);
    result.estimated_seconds = estimate.step_seconds;
    sim::SimulateOptions options;
    options.record_trace = true;
    const SimulatedStep step = simulate_plan(job, plan, options);
    if (!step.simulation.deadlock.empty()) {
      const auto violation = planner::check_plan(job, plan);
      result.not_simulated = "the step never ends" + (violation ? ": " + violation->detail : "");
      return result;
    }
    result.seconds = step.step_seconds;
    if (std::abs(result.difference()) > kAgreement) {
      const bool blocking = planner::exchanges_block(job.framework, plan);
      result.causes = causes_of(compare_kinds(step, plan, estimate.exposed, blocking),
                                result.seconds - result.estimated_seconds);
    }
  } catch (const Error& error) {
    result.not_simulated = error.what();
  }
  return result;
}

Json row_simulation_json(const RowSimulation& simulated) {
  if (!simulated.not_simulated.empty()) {
    return {{"closed_form_seconds", simulated.estimated_seconds},
            {"simulated_seconds", nullptr},
            {"not_simulated", simulated.not_simulated},
            {"causes", Json::array()}};
  }
  Json causes = Json::array();
  for (const Cause& cause : simulated.causes) {
    causes.push_back({{"cause", cause.name},
                      {"simulated_seconds", cause.seconds},
                      {"closed_form_seconds", cause.estimated_seconds},
                      {"detail", cause.detail}});
  }
  return {{"closed_form_seconds", simulated.estimated_seconds},
          {"simulated_seconds", simulated.seconds},
          {"simulated_over_closed_form", simulated.seconds / simulated.estimated_seconds},
          {"not_simulated", nullptr},
          {"causes", causes}};
}

std::string causes_text(const RowSimulation& simulated) {
  std::string text;
  for (const Cause& cause : simulated.causes) {
    const double more = cause.seconds - cause.estimated_seconds;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", cause.name, more > 0 ? "+" : "-",
                        duration_text(std::abs(more)));
  }
  return text;
}

}  // namespace trireme::tools
