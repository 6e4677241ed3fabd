// What the stages of a plan share: layers of each chunk, one layer's memory, the loss.
#include <algorithm>

#include "planner/cost/frozen_bytes.h"
#include "planner/cost/own_workspaces.h"
#include "planner/cost/stage_contents.h"
#include "planner/cost/stage_memory.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"
#include "planner/plan/stages.h"

namespace trireme::planner {

namespace {

using models::Implementation;
using topologies::Precision;

// One workspace of cuBLAS: 32 MiB from Hopper on, 8.1 MiB before (CUBLAS_WORKSPACE_CONFIG's
// default).
double library_workspace(const Job& job) {
  return job.cluster.gpu.compute_capability >= 90 ? 32.0 * 1024 * 1024 : 8.125 * 1024 * 1024;
}

// Of the layers from `first` to before `last`, those with routed experts.
double sparse_layers(const Job& job, std::int64_t first, std::int64_t last) {
  double count = 0;
  for (std::int64_t layer = first; job.model.moe && layer < last; ++layer) {
    count += models::is_moe_layer(job.model, layer) ? 1 : 0;
  }
  return count;
}

ChunkLayers layers_of_chunk(const Job& job, const Chunk& chunk) {
  ChunkLayers layers{.dense = 0,
                     .sparse = 0,
                     .embedding = chunk.embedding,
                     .head = chunk.head,
                     .prediction = static_cast<double>(chunk.prediction)};
  const std::int64_t frozen = std::clamp(job.training.frozen_layers - chunk.first, std::int64_t{0},
                                         chunk.last - chunk.first);
  layers.sparse = sparse_layers(job, chunk.first, chunk.last);
  layers.dense = static_cast<double>(chunk.last - chunk.first) - layers.sparse;
  layers.frozen_sparse = sparse_layers(job, chunk.first, chunk.first + frozen);
  layers.frozen_dense = static_cast<double>(frozen) - layers.frozen_sparse;
  return layers;
}

}  // namespace

bool has_torch_states(const Job& job) {
  return job.framework.states == StateLayout::kTorch;
}

std::vector<ChunkLayers> chunk_layers(const Job& job, const Plan& plan) {
  const std::vector<Chunk> chunks = chunks_of(job, plan);
  std::vector<ChunkLayers> split;
  split.reserve(chunks.size());
  for (const Chunk& chunk : chunks) {
    split.push_back(layers_of_chunk(job, chunk));
  }
  return split;
}

std::vector<ChunkLayers> chunk_layers_of(const Job& job, const Plan& plan, std::int64_t rank) {
  const std::vector<Chunk> chunks = chunks_of(job, plan);
  std::vector<ChunkLayers> split(chunks.size());
  for (std::int64_t place = 0; place < plan.virtual_pipeline; ++place) {
    for (const std::int64_t held : {rank, plan.pipeline - 1 - rank}) {
      const auto at = static_cast<std::size_t>(chunk_of_rank(plan, held, place));
      split[at] = layers_of_chunk(job, chunks[at]);
    }
  }
  return split;
}

bool same_chunks(const Plan& plan, const std::vector<ChunkLayers>& split, std::int64_t a,
                 std::int64_t b) {
  for (std::int64_t c = 0; c < plan.virtual_pipeline; ++c) {
    if (!(split[static_cast<std::size_t>(chunk_of_rank(plan, a, c))] ==
          split[static_cast<std::size_t>(chunk_of_rank(plan, b, c))])) {
      return false;
    }
  }
  return true;
}

StageSplit stage_split(const Job& job, const Plan& plan) {
  StageSplit split{chunk_layers(job, plan), {false}};
  for (std::int64_t rank = 1; rank < plan.pipeline; ++rank) {
    split.as_before.push_back(same_chunks(plan, split.chunks, rank, rank - 1));
  }
  return split;
}

RankLayers rank_layers(const Job& job, const Plan& plan) {
  RankLayers layers;
  const ParameterSplit cut = {
      .tensor = plan.tensor,
      .expert = plan.expert,
      .expert_tensor = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor};
  layers.parameters = rank_parameters(job, cut);
  layers.adapters = adapter_elements(job, cut);
  std::int64_t dense = -1;
  std::int64_t sparse = -1;
  for (std::int64_t layer = 0; layer < job.model.layers; ++layer) {
    (models::is_moe_layer(job.model, layer) ? sparse : dense) = layer;
  }
  if (dense >= 0) {
    layers.dense = layer_memory(job, plan, dense, layers.parameters.dense_layer);
  }
  if (sparse >= 0) {
    layers.sparse = layer_memory(job, plan, sparse, layers.parameters.sparse_layer);
  }
  if (job.model.multi_token_layers > 0) {
    const bool of_experts = models::is_moe_layer(job.model, job.model.layers);
    layers.prediction_kept =
        layer_memory(job, plan, job.model.layers,
                     of_experts ? layers.parameters.sparse_layer : layers.parameters.dense_layer)
            .whole -
        (of_experts ? layers.sparse : layers.dense).whole;
  }
  const bool low = job.precision == Precision::kFp8 || job.precision == Precision::kFp4;
  if (low && job.framework.implementation == Implementation::kTransformerEngine &&
      !job.framework.fp8_parameters) {
    // Before Blackwell fp8 products need the weight and its transpose.
    layers.fp8_weight_copies = job.cluster.gpu.compute_capability >= 100 ? 1 : 2;
  }
  return layers;
}

StageContext stage_context(const Job& job, const Plan& plan, const RankLayers& layers) {
  const Framework& framework = job.framework;
  StageContext context;
  context.job = &job;
  context.plan = &plan;
  context.layers = &layers;
  const auto over_context = framework.shard_over_context ? static_cast<double>(plan.context) : 1.0;
  const double shards = static_cast<double>(plan.sharded) * over_context;
  // Experts are spread over the ranks that share other parameters; their shard group is what
  // remains.
  const auto over_experts = static_cast<double>(expert_ranks(job, plan).shards);
  if (job.training.has_adapters()) {
    context.dense_state = adapter_state_bytes(job, plan, shards);
    context.expert_state = adapter_state_bytes(job, plan, over_experts);
    context.frozen_linear = frozen_state_bytes(job, plan, shards);
    context.frozen_experts = frozen_state_bytes(job, plan, over_experts);
    // What is not quantised is in fp32 where the residual stream is: PEFT casts both.
    const bool wide = job.training.base == BaseFormat::kFp32 || job.training.fp32_stream;
    context.frozen_other = (wide ? 4 : 2) / frozen_element_bytes(job) * context.frozen_linear;
  } else {
    context.dense_state = state_bytes(job, plan, shards);
    context.expert_state = state_bytes(job, plan, over_experts);
  }
  if (job.training.has_reference_copy()) {
    context.frozen_linear = frozen_state_bytes(job, plan, shards);
    context.frozen_experts = frozen_state_bytes(job, plan, over_experts);
  }
  context.tokens = static_cast<double>(plan.micro_batch) *
                   static_cast<double>(longest_sequence(job, plan)) /
                   static_cast<double>(plan.context);
  context.sequence_scale = plan.sequence_parallel ? 1.0 / static_cast<double>(plan.tensor) : 1.0;
  context.vocabulary = layers.parameters.vocabulary *
                       (framework.whole_logits ? static_cast<double>(plan.tensor) : 1);
  const double logits = context.tokens * context.vocabulary /
                        static_cast<double>(std::max<std::int64_t>(1, framework.loss_chunks));
  // DTensor's loss_parallel keeps one more fp32 copy of the logits than PyTorch's own loss
  // (measured on PyTorch 2.11: 16 for 12 and 18 for 14 bytes an element).
  const bool split_loss =
      has_torch_states(job) && plan.tensor > 1 && plan.sequence_parallel && !framework.whole_logits;
  const double loss = framework.cross_entropy_fusion ? framework.fused_logit_bytes
                                                     : framework.logit_bytes + (split_loss ? 4 : 0);
  const double kept = logits * std::min(loss, framework.kept_logit_bytes);
  // The logits of the extra prediction modules wait for their backward beside the model's own.
  const double predicted = static_cast<double>(job.model.multi_token_layers) * kept;
  context.logit_peak = logits * loss + predicted;
  context.logit_kept = kept + predicted;
  context.logit_backward = logits * (has_torch_states(job) ? std::min(loss, 4.0) : 2) + predicted;
  context.logit_block = logits * std::min(loss / 2, 4.0);  // one copy, in fp32 unless fused
  const bool gathered_head = has_torch_states(job) && plan.sequence_parallel;
  context.head_tokens = gathered_head ? 0
                                      : context.tokens * 4 * static_cast<double>(job.model.hidden) *
                                            context.sequence_scale;
  context.resident = resident_shares(job, plan);
  context.gathers = plan.sharding == Sharding::kFull ||
                    (has_torch_states(job) && plan.sharding == Sharding::kGradients);
  const bool deferred = !framework.reduce_every_micro_batch ||
                        run_sharding(job, plan).sharding == Sharding::kOptimizer;
  if (context.gathers && deferred && plan.micro_batches > 1 && has_torch_states(job)) {
    context.unsharded_gradient = framework.reduce_bytes;
  }
  context.constant =
      framework.implementation == Implementation::kTrireme
          ? own_workspaces(job, plan, shape_of(job, plan))
          : framework.workspace_libraries * library_workspace(job) + framework.lasting_gib * kGiB;
  return context;
}

}  // namespace trireme::planner
