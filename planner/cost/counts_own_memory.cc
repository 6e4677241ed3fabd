// Which plans' memory is counted from the program that lower() writes.
#include "planner/cost/own_memory.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/narrow.h"
#include "planner/plan/training.h"

namespace trireme::planner {

namespace {

// Adapters of one layer beside a base in 16 bits.
bool trains_as_own(const Training& training) {
  return !training.has_adapters() ||
         (training.trained == 0 && training.base == BaseFormat::kSixteenBit &&
          training.adapter_dropout == 0 && !training.embeddings &&
          (training.targets & kTargetHead) == 0);
}

}  // namespace

bool counts_own_memory(const Job& job, const Plan& plan) {
  const models::Transformer& m = job.model;
  return job.framework.implementation == models::Implementation::kTrireme && plan.expert == 1 &&
         !m.moe && !m.latent && !m.parallel_block && m.norms_per_layer == 2 &&
         !m.function.norm_after && m.function.residual_multiplier == 1 &&
         m.position != models::Position::kAlibi && !m.embedding_norm && !m.attention_sinks &&
         m.multi_token_layers == 0 && trains_as_own(job.training) && job.training.lengths.empty() &&
         (!job.offload.any() || streams_alone(job)) &&
         (m.embedding_dim == 0 || m.embedding_dim == m.hidden) &&
         plan.schedule != Schedule::kZeroBubbleH2 &&
         (job.precision == topologies::Precision::kBf16 || multiplies_narrow(job)) &&
         job.optimizer == Optimizer::kAdam && job.attention == models::AttentionKernel::kFlash;
}

}  // namespace trireme::planner
