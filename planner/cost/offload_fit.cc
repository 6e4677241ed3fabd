#include "planner/cost/offload_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/cost/memory.h"
#include "planner/cost/state_memory.h"
#include "planner/plan/moved_offload.h"

namespace trireme::planner {

namespace {

Fit fit_of(const Job& job, const Plan& plan) {
  MemoryEstimate memory;
  MemoryModel(job).estimate(plan, memory);
  return memory.fit;
}

}  // namespace

bool offloads_gradients(const Framework& framework) {
  return framework.states != StateLayout::kFlatBuffers;
}

std::string idle_offload(const Job& job, const Plan& plan) {
  const bool frozen = job.training.has_adapters() || job.training.frozen_layers > 0;
  const double shards = static_cast<double>(std::max<std::int64_t>(1, plan.sharded));
  if (job.offload.parameters == OffloadTo::kNone || frozen ||
      state_bytes(job, plan, shards).parameters > 0) {
    return {};
  }
  return fmt::format(
      "--offload parameters moves nothing: under sharding {} {} keeps no parameters beside the "
      "optimizer's masters, from which they are gathered; --offload optimizer moves those",
      to_string(plan.sharding), job.framework.name);
}

std::optional<Offload> offload_that_fits(const Job& job, const Plan& plan) {
  if (fit_of(job, plan) == Fit::kFits) {
    return std::nullopt;
  }
  std::vector<OffloadTo Offload::*> steps = {&Offload::optimizer};
  if (offloads_gradients(job.framework)) {
    steps.push_back(&Offload::gradients);
  }
  steps.push_back(&Offload::activations);
  if (plan.sharding == Sharding::kFull) {
    steps.push_back(&Offload::parameters);
  }
  Job tried = job;
  for (OffloadTo Offload::*const step : steps) {
    tried.offload.*step = OffloadTo::kHost;
    tried.offload = moved_together(job.framework, tried.offload);
    if (fit_of(tried, plan) == Fit::kFits) {
      return tried.offload;
    }
  }
  return std::nullopt;
}

}  // namespace trireme::planner
