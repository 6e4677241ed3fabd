// What the host adds to a stage's times: around sharded units, at the end of a step, and on a
// machine whose host is slower than was thought.
#include <algorithm>
#include <numeric>

#include "planner/cost/host_wait.h"
#include "planner/cost/time_state.h"
#include "planner/cost/unit_launches.h"
#include "planner/cost/unit_layers.h"
#include "planner/plan/host_counts.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

bool spreads_the_rest(const Plan& plan) {
  return plan.sharded * plan.context > 1;
}

// Experts have more data-parallel ranks than the rest where fewer ranks split them.
bool spreads_experts(const Job& job, const Plan& plan) {
  return job.model.moe && expert_ranks(job, plan).shards > 1;
}

}  // namespace

bool spreads_units(const Job& job, const Plan& plan) {
  return spreads_the_rest(plan) || spreads_experts(job, plan);
}

// The host's share of gathering and reducing units shows where the host is the slower one.
void TimeModel::State::add_unit_hosts(const Plan& plan, const RankClass& rank,
                                      RankTimes& times) const {
  const std::int64_t count =
      std::accumulate(rank.layers.begin(), rank.layers.end(), std::int64_t{0});
  const std::int64_t unit = layers_of_unit(
      job, plan, count, kinds.dense_parameters.front() + kinds.expert_parameters.front());
  std::int64_t experts = 0;  // layers whose experts are a unit beside them
  for (std::size_t kind = 0; kind < rank.layers.size(); ++kind) {
    experts += kinds.expert_parameters[kind] > 0 ? rank.layers[kind] : 0;
  }
  const auto sparse = static_cast<double>(experts);
  experts = spreads_experts(job, plan) ? experts : 0;
  const std::int64_t expert_units = (experts + unit - 1) / unit;
  // Where only the experts are spread, theirs are all the units there are.
  const bool rest = spreads_the_rest(plan);
  const std::int64_t units = rest ? (count + unit - 1) / unit : 0;
  const UnitLaunches looped = looped_expert_launches(job);
  const double hooks =
      unit_launches(job, false, static_cast<double>(rest ? units : expert_units), 0).hooks +
      sparse * looped.hooks;
  UnitLaunches launches =
      unit_launches(job, plan.tensor > 1, static_cast<double>(units + expert_units),
                    static_cast<double>((rest ? count : 0) + experts));
  launches.reduce += sparse * looped.reduce;
  const double launch = op.launch(1).value * fit.host_factor;
  const double share = 1 / static_cast<double>(plan.micro_batches);  // of what a step does once
  const RunSharding run = run_sharding(job, plan);
  const bool each = run.sharding == Sharding::kFull && (run.reshards || plan.pipeline == 1);
  const bool again = run.sharding == Sharding::kFull && run.reshards;
  times.host_forward += launch * launches.gather * (each ? 1 : share);
  times.host_backward += launch * (again ? launches.gather : 0);
  // A pipeline of PyTorch reduces behind its last micro-batch.
  const bool reduces = run.sharding != Sharding::kOptimizer;
  times.host_backward += launch * launches.reduce * (reduces ? 1 : share);
  times.host_forward += launch * hooks / 2;
  times.host_backward += launch * hooks / 2;
  if (plan.recompute == Recompute::kFull && hooks_repeat(job.framework)) {
    const std::int64_t repeated =
        std::accumulate(rank.recomputed.begin(), rank.recomputed.end(), std::int64_t{0});
    times.host_backward += launch * hooks / 2 * static_cast<double>(repeated) /
                           static_cast<double>(std::max<std::int64_t>(count, 1));
  }
}

// The host's part of what ends a step, of the stage that has most layers.
double TimeModel::State::step_host_seconds(const Plan& plan) {
  if (counts == nullptr) {
    return 0;
  }
  std::int64_t most = 0;
  for (const RankClass& rank : classes(plan)) {
    most = std::max(most, std::accumulate(rank.layers.begin(), rank.layers.end(), std::int64_t{0}));
  }
  return op.launch(1).value * fit.host_factor *
         step_host(job, static_cast<double>(most), step_shards(job.framework, plan));
}

// What a micro-batch takes longer on a host that takes `slower` times as long, where the machine's
// was not measured.
double TimeModel::State::other_host_seconds(const Plan& plan, const RankTimes& rank,
                                            double slower) const {
  if (job.profile.machine || counts == nullptr) {
    return 0;
  }
  const PassPair gpu = {rank.forward_total() - rank.host_wait_forward,
                        rank.backward_total() - rank.host_wait_backward};
  const PassPair host = {slower * rank.host_forward, slower * rank.host_backward};
  const HostWaits waits = host_waits(gpu, host, plan.pipeline > 1, job.framework);
  return waits.forward + waits.backward - rank.host_wait_forward - rank.host_wait_backward;
}

}  // namespace trireme::planner
