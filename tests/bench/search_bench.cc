// Complete estimates a second, and search time by cluster size.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "models/presets.h"
#include "planner/search/search.h"
#include "topologies/cluster.h"

namespace {

using namespace trireme::planner;

Job job_of(const char* model, std::int64_t nodes, std::int64_t batch) {
  Job job;
  job.model = trireme::models::load_model(model);
  job.cluster = trireme::topologies::load_cluster("dgx-h100x" + std::to_string(nodes));
  job.framework = find_framework("trireme");
  job.profile = trireme::topologies::shipped_profile();
  job.sequence = 8192;
  job.global_batch = batch;
  return job;
}

// Distinct layouts of the whole space in turn: memory of every stage and time of every category of
// each.
void estimates(benchmark::State& state, const char* model, std::int64_t nodes, std::int64_t batch) {
  const Job job = job_of(model, nodes, batch);
  Space space;
  enumerate(job, {}, {}, space);
  Estimator estimator(job);
  Estimate estimate;
  std::int64_t count = 0;
  std::size_t at = 0;
  while (state.KeepRunning()) {
    const SpaceNode& node = space.nodes[at++ % space.nodes.size()];
    for (const ShardingChoice& choice : space.degrees[node.degrees].shardings) {
      Plan plan = with_sharding(node.plan, choice);
      for (const AxisOrder& order : *choice.orders) {
        plan.order = order;
        estimator.estimate(plan, estimate);
        benchmark::DoNotOptimize(estimate.time.step_seconds);
        ++count;
      }
    }
  }
  state.SetItemsProcessed(count);
}

// As `estimates`, every layout from another branch than the one before: nothing but collective and
// layer times is there already. A seeded sample of the whole space, each layout once.
void scattered_estimates(benchmark::State& state, const char* model, std::int64_t nodes,
                         std::int64_t batch) {
  const Job job = job_of(model, nodes, batch);
  Space space;
  enumerate(job, {}, {}, space);
  std::vector<Plan> plans;
  std::mt19937_64 random(1);
  const double share = 1'000'000.0 / static_cast<double>(space.layouts);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (const SpaceNode& node : space.nodes) {
    for (const ShardingChoice& choice : space.degrees[node.degrees].shardings) {
      for (const AxisOrder& order : *choice.orders) {
        if (uniform(random) < share) {
          plans.push_back(with_sharding(node.plan, choice));
          plans.back().order = order;
        }
      }
    }
  }
  std::shuffle(plans.begin(), plans.end(), random);
  Estimator estimator(job);
  Estimate estimate;
  while (state.KeepRunning()) {
    for (const Plan& plan : plans) {
      estimator.estimate(plan, estimate);
      benchmark::DoNotOptimize(estimate.time.step_seconds);
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(plans.size()));
}

void searches(benchmark::State& state, const char* model, std::int64_t batch) {
  const Job job = job_of(model, state.range(0), batch);
  std::int64_t space = 0;
  while (state.KeepRunning()) {
    space = search(job, {}).space;
  }
  state.counters["layouts"] = static_cast<double>(space);
}

BENCHMARK_CAPTURE(estimates, llama_70b_512, "llama-3.1-70b", 64, 1024)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(estimates, llama_405b_16384, "llama-3.1-405b", 2048, 2048)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(scattered_estimates, llama_70b_512, "llama-3.1-70b", 64, 1024)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(scattered_estimates, llama_405b_16384, "llama-3.1-405b", 2048, 2048)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(searches, llama_70b, "llama-3.1-70b", 1024)
    ->Arg(8)
    ->Arg(64)
    ->Arg(128)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(searches, llama_405b, "llama-3.1-405b", 2048)
    ->Arg(64)
    ->Arg(512)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
