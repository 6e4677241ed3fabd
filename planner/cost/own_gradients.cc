#include "planner/cost/own_gradients.h"

#include "planner/cost/own_experts.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

bool frees_gradients(const Job& job, const Plan& plan) {
  if (job.framework.implementation != models::Implementation::kTrireme || plan.pipeline > 1 ||
      plan.micro_batches > 1) {
    return false;
  }
  for (std::int64_t layer = 0; layer < models::trained_layers(job.model); ++layer) {
    if (is_modelled_layer(job, plan, layer)) {
      return false;
    }
  }
  return true;
}

bool sums_gradients_whole(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.model.multi_token_layers == 0;
}

double head_gradient_bytes(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  if (job.training.has_adapters() && !job.training.embeddings) {
    return 0;
  }
  if (!sums_gradients_whole(job)) {
    return 2 * stage.head;
  }
  const bool comes = context.gathers || frees_gradients(job, *context.plan);
  return comes ? job.framework.reduce_bytes * stage.head : 0;
}

double own_expert_gradients(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const bool made = stage.sparse_layers > 0 && runs_own_experts(job, plan) &&
                    frees_gradients(job, plan) && expert_ranks(job, plan).shards == 1 &&
                    !job.training.has_adapters();
  return made ? stage.trained_experts / stage.sparse_layers * context.expert_state.gradients : 0;
}

}  // namespace trireme::planner
