#include "planner/search/sweep.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "core/parallel.h"
#include "planner/search/front.h"
#include "planner/search/space.h"

namespace trireme::planner {
namespace {

// All layouts of one node. Memory does not depend on the order of the axes.
void sweep_node(const Space& space, const SpaceNode& node, Estimator& estimator, std::size_t at,
                const SweepSink& sink) {
  Estimate estimate;
  RankedPlan layout;
  for (const ShardingChoice& choice : space.degrees[node.degrees].shardings) {
    layout.plan = with_sharding(node.plan, choice);
    layout.plan.order = choice.orders->front();
    estimator.memory().estimate_peak(layout.plan, estimate.memory);
    layout.memory_gib = estimate.memory.allocated_gib;
    layout.fit = estimate.memory.fit;
    const int usual_complexity = complexity_of(layout.plan, true);
    for (std::size_t i = 0; i < choice.placements.size(); ++i) {
      layout.plan.order = (*choice.orders)[i];
      layout.complexity = usual_complexity + (choice.placements[i].usual ? 0 : 1);
      estimator.time().estimate(layout.plan, estimate.time);
      layout.step_seconds = estimate.time.step_seconds;
      layout.low_seconds = estimate.time.low_seconds;
      layout.high_seconds = estimate.time.high_seconds;
      sink.take(at++, layout);
    }
  }
}

}  // namespace

void sweep(const Job& job, const SweepOptions& options, const SweepSink& sink) {
  Space space;
  enumerate(job, options.constraints, options.fixed, space);
  std::vector<std::size_t> begins(space.nodes.size());
  // Nodes whose layers are cut alike stay on one thread, which then times those layers once.
  std::map<std::array<std::int64_t, 4>, std::vector<std::size_t>> families;
  std::size_t layouts = 0;
  for (std::size_t i = 0; i < space.nodes.size(); ++i) {
    const Plan& plan = space.nodes[i].plan;
    families[{plan.tensor, plan.context, plan.expert, plan.expert_tensor}].push_back(i);
    begins[i] = layouts;
    layouts += static_cast<std::size_t>(space.degrees[space.nodes[i].degrees].layouts);
  }
  sink.begin(layouts);
  std::vector<const std::vector<std::size_t>*> parts;
  for (const auto& [cut, nodes] : families) {
    parts.push_back(&nodes);
  }
  const int threads = std::clamp(options.threads, 1, usable_threads());
  std::vector<std::unique_ptr<Estimator>> estimators(static_cast<std::size_t>(threads));
  parallel_for(threads, parts.size(), [&](std::size_t thread, std::size_t part) {
    if (estimators[thread] == nullptr) {
      estimators[thread] = std::make_unique<Estimator>(job);
    }
    for (const std::size_t i : *parts[part]) {
      sweep_node(space, space.nodes[i], *estimators[thread], begins[i], sink);
    }
  });
}

}  // namespace trireme::planner
