#include "planner/cost/expert_time.h"

#include <algorithm>
#include <cmath>

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

double expert_host_seconds(const Framework& framework, double launch_seconds) {
  return framework.expert_launches * (1 - framework.graphed_launches) * launch_seconds;
}

}  // namespace trireme::planner
