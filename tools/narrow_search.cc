// How the options of `plan` narrow the search.
#include <algorithm>

#include "planner/search/space.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "topologies/cluster.h"

namespace trireme::tools {

using planner::Constraint;
using planner::ConstraintAxis;

void fix_layout(const LayoutOptions& options, planner::SearchOptions& search) {
  const planner::Plan plan = make_plan(options, std::nullopt);
  const auto fix = [&](bool given, ConstraintAxis axis, std::int64_t number) {
    if (given) {
      search.constraints.push_back({axis, planner::Comparison::kEqual, number});
    }
  };
  fix(options.tensor || plan.tensor > 1, ConstraintAxis::kTensor, plan.tensor);
  fix(options.pipeline || plan.pipeline > 1, ConstraintAxis::kPipeline, plan.pipeline);
  fix(options.virtual_pipeline || plan.virtual_pipeline > 1, ConstraintAxis::kVirtual,
      plan.virtual_pipeline);
  fix(options.context || plan.context > 1, ConstraintAxis::kContext, plan.context);
  fix(options.expert || plan.expert > 1, ConstraintAxis::kExpert, plan.expert);
  fix(options.expert_tensor.has_value(), ConstraintAxis::kExpertTensor, plan.expert_tensor);
  const bool product = options.data_parallel.has_value();
  fix(!product && (options.sharded || plan.sharded > 1), ConstraintAxis::kSharded, plan.sharded);
  fix(!product && (options.replicas || plan.replicas > 1), ConstraintAxis::kReplicas,
      plan.replicas);
  fix(product, ConstraintAxis::kDataParallel, options.data_parallel.value_or(1));
  const bool micro_batch = options.layout.find("mb") != std::string::npos;
  fix(options.micro_batch || micro_batch, ConstraintAxis::kMicroBatch, plan.micro_batch);
  planner::FixedChoices& fixed = search.fixed;
  if (!options.sharding.empty() || plan.sharding != planner::Sharding::kNone) {
    fixed.sharding = plan.sharding;
  }
  if (!options.schedule.empty()) {
    fixed.schedule = plan.schedule;
  }
  if (!options.recompute.empty() || plan.recompute != planner::Recompute::kNone) {
    fixed.recompute = plan.recompute;
  }
  if (plan.recompute_layers >= 0) {
    fixed.recompute_layers = plan.recompute_layers;
  }
  if (!options.recompute_modules.empty()) {
    fixed.recompute_modules = plan.recompute_modules;
  }
  fixed.sequence_parallel = options.sequence_parallel;
  if (!options.fsdp_unit.empty()) {
    fixed.fsdp_unit = plan.fsdp_unit;
  }
  fixed.stage_layers = plan.stage_layers;
}

bool use_fewer_gpus(planner::Job& job, const planner::SearchOptions& search, bool batch_assumed) {
  const planner::Job whole = job;
  for (std::int64_t gpus = whole.cluster.gpus - 1; gpus > 0; --gpus) {
    job.cluster = topologies::narrowed(whole.cluster, gpus);
    if (batch_assumed) {
      job.global_batch = gpus;
    }
    planner::Space space;
    planner::enumerate(job, search.constraints, search.fixed, space, search.accepts);
    if (space.layouts > 0) {
      return true;
    }
  }
  job = whole;
  return false;
}

}  // namespace trireme::tools
