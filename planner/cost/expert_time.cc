#include "planner/cost/expert_time.h"

#include <algorithm>
#include <cmath>

#include "models/layer_share.h"
#include "planner/plan/host_counts.h"

namespace trireme::planner {
namespace {

// Distinct places among n that k choices visit on average.
double places_visited(double n, double k) {
  return n * (1 - std::pow(1 - 1 / n, k));
}

// Places that k experts of `all` lie on where they follow each other from a multiple of k.
double places_in_turn(double n, double k, double all) {
  return std::max(1.0, n * k / all);
}

// Of n places those that hold one of the c groups, of g, that a router chooses first: a group lies
// on n / g places, or a place has g / n groups.
double places_left(double n, const models::Function& router) {
  const auto groups = static_cast<double>(router.router_groups);
  const auto chosen = static_cast<double>(router.router_groups_chosen);
  if (groups <= 1 || chosen <= 0 || chosen >= groups) {
    return n;
  }
  if (n >= groups) {
    return n * chosen / groups;
  }
  double none = 1;  // of the place's groups is chosen
  for (int other = 0; other < groups / n; ++other) {
    none *= std::max(0.0, groups - chosen - other) / (groups - other);
  }
  return n * (1 - none);
}

// What the busiest rank receives over the mean.
double received_load(const Job& job, const Plan& plan) {
  models::Shard shard;
  shard.expert_parallel = plan.expert;
  shard.even_routing = job.framework.even_routing;
  shard.unbalanced_router = job.framework.unbalanced_router;
  return job.framework.implementation == models::Implementation::kTrireme
             ? 1
             : models::busiest_expert_load(job.model, shard);
}

}  // namespace

double exchanged_copies(const Job& job, const Plan& plan, bool to_experts) {
  constexpr double kElementBytes = 2;
  // What DeepEP's kernels over the network take beside a training step, over what they take alone:
  // in DeepSeek-V3's trace (H800, EP64, 4096 tokens, deepseek-ai/profile-data) a combine takes 6.07
  // ms, alone 4.69 (45 GB/s, first release, DeepEP's table).
  constexpr double kBesideTraining = 1.3;
  constexpr std::int64_t kServerRanks = 8;  // as far as DeepEP's own kernels over NVLink reach
  const auto experts = static_cast<double>(job.model.moe->experts_per_token);
  double copies = experts;
  if (job.framework.dispatch_once) {
    const std::int64_t inner = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
    const topologies::GroupShape group = topologies::group_shape(job.cluster, plan.expert, inner);
    const std::int64_t nodes = (group.ranks + group.ranks_per_node - 1) / group.ranks_per_node;
    const auto places = static_cast<double>(nodes > 1 ? nodes : group.ranks);
    copies = (job.framework.adjacent_experts
                  ? places_in_turn(places, experts, static_cast<double>(job.model.moe->experts))
                  : places_visited(places_left(places, job.model.function), experts)) *
             (nodes > 1                    ? kBesideTraining
              : group.ranks > kServerRanks ? 1 / job.framework.wide_dispatch_rate
                                           : 1);
  }
  return received_load(job, plan) * copies *
         (to_experts ? job.framework.dispatch_bytes / kElementBytes : 1);
}

double overlapped_share(std::int64_t micro_batches, std::int64_t chunks, std::int64_t stages) {
  const auto passes = static_cast<double>(micro_batches * chunks);
  const auto warm_up = stages > 1 ? static_cast<double>((chunks - 1) * stages + stages - 1) : 1.0;
  return std::floor(kOverlapSteps * std::max(0.0, 1 - warm_up / passes)) / kOverlapSteps;
}

double overlapped_share_in_v(std::int64_t micro_batches, std::int64_t split, std::int64_t stages) {
  const auto passes = static_cast<double>(kChunksInV * micro_batches);
  const auto alone = static_cast<double>(split + stages);
  return std::floor(kOverlapSteps * std::max(0.0, 1 - alone / passes)) / kOverlapSteps;
}

double overlapped_share(const Plan& plan) {
  if (plan.pipeline == 1 || !is_in_v(plan.schedule)) {
    return overlapped_share(plan.micro_batches, plan.virtual_pipeline, plan.pipeline);
  }
  // DualPipeV splits 2p - 1 - r backwards of rank r.
  const std::int64_t split = splits_every_backward(plan.schedule) ? kChunksInV * plan.micro_batches
                                                                  : (3 * plan.pipeline - 1) / 2;
  return overlapped_share_in_v(plan.micro_batches, split, plan.pipeline);
}

double exposed_exchange(const BehaviourFit& fit, double exchange, double compute) {
  const double hidden = std::min(exchange, compute);
  return exchange - hidden + fit.overlap_slowdown * hidden;
}

PassPair expert_host_seconds(const Job& job, const BehaviourFit& fit, std::int64_t expert_ranks,
                             double launch_seconds) {
  const HostCounts* counts = host_counts_of(job.framework);
  if (counts != nullptr && counts->sparse.forward.plain > 0 &&
      (job.framework.experts_in_loop || !counts->looped_only)) {
    const PassCount count = sparse_count(
        *counts, static_cast<double>(job.model.moe->experts) / static_cast<double>(expert_ranks));
    const double plain = fit.host_factor * launch_seconds;
    return {plain * count.forward.plain, plain * count.backward.plain};
  }
  const Framework& framework = job.framework;
  // Small operators, each of a plain launch, with a fill before it (planner/plan/host_counts.cc).
  constexpr double kFilled = 1 + 1.5 / kPlainLaunch;
  const double all = framework.expert_launches * framework.host_slowdown *
                     (framework.deterministic ? kFilled : 1) * (1 - framework.graphed_launches) *
                     launch_seconds;
  return {all / 3, all * 2 / 3};
}

}  // namespace trireme::planner
