#include "planner/cost/expert_time.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/host_counts.h"

namespace trireme::planner {
namespace {

// Distinct places among n that k choices visit on average.
double places_visited(double n, double k) {
  return n * (1 - std::pow(1 - 1 / n, k));
}

}  // namespace

double exchanged_copies(const Job& job, const Plan& plan, bool to_experts) {
  constexpr double kElementBytes = 2;
  const auto experts = static_cast<double>(job.model.moe->experts_per_token);
  double copies = experts;
  if (job.framework.dispatch_once) {
    const std::int64_t inner = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
    const topologies::GroupShape group = topologies::group_shape(job.cluster, plan.expert, inner);
    const std::int64_t nodes = (group.ranks + group.ranks_per_node - 1) / group.ranks_per_node;
    copies = places_visited(static_cast<double>(nodes > 1 ? nodes : group.ranks), experts);
  }
  return copies * (to_experts ? job.framework.dispatch_bytes / kElementBytes : 1);
}

double exposed_exchange(const BehaviourFit& fit, double exchange, double compute) {
  const double hidden = std::min(exchange, compute);
  return exchange - hidden + fit.overlap_slowdown * hidden;
}

PassPair expert_host_seconds(const Job& job, const BehaviourFit& fit, std::int64_t expert_ranks,
                             double launch_seconds) {
  const HostCounts* counts = host_counts_of(job.framework);
  if (counts != nullptr && counts->sparse.forward.plain > 0) {
    const PassCount count = sparse_count(
        *counts, static_cast<double>(job.model.moe->experts) / static_cast<double>(expert_ranks));
    const double plain = fit.host_factor * launch_seconds;
    return {plain * count.forward.plain, plain * count.backward.plain};
  }
  const Framework& framework = job.framework;
  const double all = framework.expert_launches * (1 - framework.graphed_launches) * launch_seconds;
  return {all / 3, all * 2 / 3};
}

}  // namespace trireme::planner
