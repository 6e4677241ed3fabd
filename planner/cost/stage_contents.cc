#include "planner/cost/stage_contents.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/check.h"
#include "planner/cost/in_flight.h"
#include "planner/cost/layer_times.h"
#include "planner/cost/state_memory.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/shape.h"
#include "planner/plan/stages.h"

namespace trireme::planner {

namespace {

double kept_of_chunk(const Plan& plan, const LayerMemory& layer, double all, double frozen) {
  const double layers =
      all - frozen;  // no gradient flows through the layers below the trained ones
  if (plan.recompute != Recompute::kFull) {
    return layers * layer.kept;
  }
  const double recomputed = plan.recompute_layers < 0
                                ? layers
                                : std::min(layers, static_cast<double>(plan.recompute_layers));
  return recomputed * layer.checkpoint + (layers - recomputed) * layer.whole;
}

// Of layers that FSDP1 gathers and nobody trains: what waits on their inputs' gradients to let the
// unit go (_register_post_backward_reshard_only_hook, torch/distributed/fsdp/_runtime_utils.py)
// holds those inputs, which a reentrant checkpoint detached, and their gradients until backward
// ends. By the first layers' backward that is every layer's but two: a sequence of 4,096 tokens
// takes 30/32 GiB more of a Llama 3 8B than without FSDP (fms-acceleration a100_80gb.csv).
double held_gradients(const LayerMemory& layer, double layers) {
  return std::max(0.0, layers - 2) * layer.checkpoint;
}

// Beyond what was kept: the layer's recomputed tensors, and what its backward needs at once. Of a
// chunk that repeats its first layers alone the others, which kept all, are done by then.
double live_of_layer(const Job& job, const Plan& plan, const LayerMemory& layer, double layers) {
  const bool whole =
      plan.recompute == Recompute::kFull &&
      (plan.recompute_layers < 0 || static_cast<double>(plan.recompute_layers) >= layers);
  const double recomputed = whole ? layer.whole : layer.whole - layer.kept;
  const bool held = whole && job.framework.frozen_graph_stays && job.training.has_adapters() &&
                    plan.sharding == Sharding::kFull;
  return recomputed + layer.transient + (held ? held_gradients(layer, layers) : 0);
}

double embedding_bytes(const StageContext& context) {
  const Job& job = *context.job;
  const double dropout = job.framework.dropout > 0
                             ? static_cast<double>(job.model.hidden) * context.sequence_scale
                             : 0;
  return context.tokens * (8 + dropout);
}

// Asks of each virtual chunk of a rank, by its place in the model. Where micro-batches enter at
// both ends (DualPipe) they are those of the rank as far from the other end too: stage s holds p -
// s micro-batches whichever way they go, both together p + 1 (DeepSeek-V3, table 2).
template <typename Ask>
void each_held_chunk(const Job& job, const Plan& plan, std::int64_t rank, const Ask& ask) {
  const RankInFlight in_flight_here(plan, rank);
  const bool two_ways = runs_two_ways(job, plan);
  const std::int64_t mirrored = plan.pipeline - 1 - rank;
  for (std::int64_t chunk = 0; chunk < plan.virtual_pipeline; ++chunk) {
    const std::int64_t first = chunk * plan.pipeline;
    if (!two_ways) {
      ask(static_cast<std::size_t>(chunk_of_rank(plan, rank, chunk)), in_flight_here.at(chunk));
      continue;
    }
    for (const std::int64_t stage : {std::min(rank, mirrored), std::max(rank, mirrored)}) {
      const std::int64_t whole = std::min(plan.pipeline - stage, plan.micro_batches);
      ask(static_cast<std::size_t>(first + stage), InFlight{static_cast<double>(whole), 0});
    }
  }
}

// What one micro-batch of a chunk keeps: of its layers, in all, and for weight gradients.
struct KeptOfChunk {
  double layers = 0, whole = 0, postponed = 0;
};

KeptOfChunk kept_of(const StageContext& context, const ChunkLayers& part) {
  const Plan& plan = *context.plan;
  const RankLayers& layers = *context.layers;
  KeptOfChunk kept;
  kept.layers = kept_of_chunk(plan, layers.dense, part.dense, part.frozen_dense) +
                kept_of_chunk(plan, layers.sparse, part.sparse, part.frozen_sparse);
  kept.postponed =
      part.dense * layers.dense.weight_gradient + part.sparse * layers.sparse.weight_gradient;
  // What is recomputed begins with a prediction module's layer.
  const bool frozen_start = part.frozen_dense + part.frozen_sparse > 0;
  const double embedding = part.embedding && !frozen_start ? embedding_bytes(context) : 0;
  kept.whole = kept.layers + embedding + part.prediction * layers.prediction_kept;
  return kept;
}

double kept_in_flight(const KeptOfChunk& kept, const InFlight& held) {
  return held.whole * kept.whole + held.weight_gradient * kept.postponed;
}

// What a split backward holds beyond the activations of the fullest moment: as a micro-batch's kept
// tensors turn into those of its weight gradients, layer by layer, or at the end, when most of
// those wait (`late_bytes`) and another micro-batch may `follow`. `kept`: of the last chunk.
void set_turned(const Plan& plan, const KeptOfChunk& kept, double layers, bool follows,
                double late_bytes, StageContents& stage) {
  const double one_layer = 1 / std::max(1.0, layers);
  const double turning = (kept.postponed - kept.layers) * (1 - one_layer);
  const bool pairs = plan.schedule == Schedule::kDualPipeV;
  const double at_end = follows && !pairs ? turning : -kept.postponed * one_layer;
  // In a V also while forwards come, though DualPipeV's first split backwards come before the last
  // of those ahead.
  const double before = is_in_v(plan.schedule) ? turning - (pairs ? kept.whole : 0) : 0;
  stage.first_split = pairs ? std::max(0.0, turning) - kept.whole : 0;
  stage.turned = std::max({0.0, before, late_bytes + at_end - stage.activations});
}

// Bytes of the masters that a rank updates on the host; fp32 gradients are as many, of their type.
double master_bytes(const StageContext& context, const StageContents& stage) {
  return context.job->offload.optimizer_share * main_copy_bytes(context, stage);
}

// What pinning `bytes` takes beyond them: PyTorch's host allocator rounds a block up to a power of
// two (CachingHostAllocator.h; since 1.12, pytorch#95823).
double pinned_beyond(const Framework& framework, double bytes) {
  return bytes > 0 && framework.offload_pinned ? std::exp2(std::ceil(std::log2(bytes))) - bytes : 0;
}

// What DeepSpeed's offloaded optimizer holds on the host beside states, gradients and offloaded
// parameters, pinned as its documented configurations ask for, unless told not to. ZeRO-3
// (runtime/zero/stage3.py): the step's fp32 gradients by sub-groups, beside the sums
// (grad_partitions_flat_buffer) and the parameters, one block each. Stages 1 and 2
// (stage_1_and_2.py): 16-bit weights on their way up; masters and gradients are pinned.
double zero_buffers(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const auto beyond = [&](double bytes) { return pinned_beyond(job.framework, bytes); };
  const double masters = master_bytes(context, stage);
  const double each = std::max(job.framework.master_bytes, 1.0);
  const double weights = job.framework.parameter_bytes * masters / each;
  if (context.plan->sharding != Sharding::kFull) {
    // Wide sums are the masters' gradients, narrow ones lie beside them.
    const double gradients = zero_sum_bytes(job, context.plan->sharding) < each ? masters : 0;
    return gradients + weights + beyond(weights) + 2 * beyond(masters);
  }
  const double group = zero_sub_group(job) * each;
  const double groups = std::floor(masters / group);
  const double sums = zero_sum_bytes(job, context.plan->sharding) * masters / each;
  return masters + groups * beyond(group) + beyond(masters - groups * group) + beyond(sums) +
         (job.offload.parameters == OffloadTo::kHost ? beyond(weights) : 0);
}

}  // namespace

void set_trained(const StageContext& context, StageContents& stage) {
  const Job& job = *context.job;
  const Training& training = job.training;
  const RankParameters& parameters = context.layers->parameters;
  stage.trained = stage.elements;
  stage.trained_experts = stage.experts;
  if (training.has_reference_copy()) {
    stage.frozen = stage.elements * context.frozen_linear + stage.experts * context.frozen_experts;
  }
  if (training.has_adapters()) {
    const AdapterElements& adapters = context.layers->adapters;
    const double linear = stage.dense_layers * parameters.dense_layer.linear_weights +
                          stage.sparse_layers * parameters.sparse_layer.linear_weights;
    stage.frozen = linear * context.frozen_linear + stage.experts * context.frozen_experts +
                   (stage.elements - linear) * context.frozen_other;
    stage.trained = (stage.dense_layers - stage.frozen_dense) * adapters.dense_layer +
                    (stage.sparse_layers - stage.frozen_sparse) * adapters.sparse_layer +
                    (stage.has_head ? adapters.head : 0);
    stage.tables = training.embeddings ? stage.root : 0;
    stage.trained_experts = (stage.sparse_layers - stage.frozen_sparse) * adapters.experts;
    return;
  }
  if (training.frozen_layers > 0) {
    const double below = stage.frozen_dense * parameters.dense_layer.dense +
                         stage.frozen_sparse * parameters.sparse_layer.dense +
                         (stage.embedding ? parameters.embedding : 0);
    const double experts = stage.frozen_sparse * parameters.sparse_layer.expert;
    stage.trained -= below;
    stage.trained_experts -= experts;
    stage.frozen +=
        below * context.dense_state.parameters + experts * context.expert_state.parameters;
  }
}

// What its layers, tables and units have, where a chunk has `most` layers.
void set_elements(const StageContext& context, double most, StageContents& stage) {
  const Plan& plan = *context.plan;
  const RankParameters& parameters = context.layers->parameters;
  const bool tied_here = context.job->model.tied_embeddings && stage.embedding && stage.has_head;
  // Prediction modules read the token table: a rank without it holds a copy.
  const bool has_table = stage.embedding || (context.job->model.tied_embeddings && stage.has_head);
  stage.root = (stage.embedding ? parameters.embedding : 0) +
               (stage.has_head ? parameters.head - (tied_here ? parameters.head_matrix : 0) : 0) +
               (stage.prediction > 0 && !has_table ? parameters.head_matrix : 0);
  stage.head = stage.has_head ? parameters.head_matrix : 0;
  stage.elements = stage.root + stage.dense_layers * parameters.dense_layer.dense +
                   stage.sparse_layers * parameters.sparse_layer.dense +
                   stage.prediction * parameters.prediction;
  stage.experts = stage.sparse_layers * parameters.sparse_layer.expert;
  const double layer = std::max(
      stage.dense_layers > 0 ? parameters.dense_layer.dense : 0,
      stage.sparse_layers > 0 ? parameters.sparse_layer.dense + parameters.sparse_layer.expert : 0);
  const double unit_layers =
      plan.fsdp_unit == 0 ? most : std::min(most, static_cast<double>(plan.fsdp_unit));
  stage.largest_unit = std::min(stage.body(), layer * unit_layers);
  stage.chunk = std::min(stage.body(), layer * most);
}

StageContents contents_of(const StageContext& context, const std::vector<ChunkLayers>& split,
                          std::int64_t rank) {
  const Plan& plan = *context.plan;
  const RankLayers& layers = *context.layers;
  StageContents stage;
  double fewest = std::numeric_limits<double>::infinity();  // trained layers of a chunk
  double most = 0;                                          // layers of a chunk
  const ChunkLayers* last = nullptr;
  KeptOfChunk kept;
  const RankInFlight in_flight_here(plan, rank);
  double late_bytes = 0, late_whole = 0;
  each_held_chunk(*context.job, plan, rank, [&](std::size_t index, const InFlight& held) {
    const ChunkLayers& part = split[index];
    if (last == nullptr || !(*last == part)) {
      kept = kept_of(context, part);
      last = &part;
    }
    stage.dense_layers += part.dense;
    stage.sparse_layers += part.sparse;
    stage.in_flight = held.whole;
    stage.chunks += 1;
    stage.chunks_before_backward += held.all_of(plan.micro_batches) ? 1 : 0;
    stage.waiting = held.weight_gradient;
    fewest = std::min(fewest, part.dense + part.sparse - part.frozen_dense - part.frozen_sparse);
    most = std::max(most, part.dense + part.sparse);
    stage.frozen_dense += part.frozen_dense;
    stage.frozen_sparse += part.frozen_sparse;
    stage.prediction += part.prediction;
    stage.activations += kept_in_flight(kept, held);
    if (ends_with_weights(plan)) {
      const InFlight late = in_flight_here.late(static_cast<std::int64_t>(stage.chunks) - 1);
      late_bytes += kept_in_flight(kept, late);
      late_whole += late.whole;
    }
    stage.embedding = stage.embedding || part.embedding;
    stage.has_head = stage.has_head || part.head;
  });
  TRIREME_CHECK(last != nullptr);  // a rank holds a chunk
  if (ends_with_weights(plan)) {
    set_turned(plan, kept, last->dense + last->sparse, late_whole > 0, late_bytes, stage);
  }
  set_elements(context, most, stage);
  stage.live = std::max(
      stage.dense_layers > 0 ? live_of_layer(*context.job, plan, layers.dense, fewest) : 0,
      stage.sparse_layers > 0 ? live_of_layer(*context.job, plan, layers.sparse, fewest) : 0);
  if (context.job->training.holds_graph) {
    stage.held =
        stage.dense_layers * layers.dense.inputs + stage.sparse_layers * layers.sparse.inputs;
  }
  return stage;
}

StageContents stage_of(const StageContext& context, const std::vector<ChunkLayers>& split,
                       std::int64_t rank) {
  StageContents stage = contents_of(context, split, rank);
  set_trained(context, stage);
  return stage;
}

double parameter_bytes(const StageContext& context, const StageContents& stage) {
  return stage.frozen + stage.tables * kTableBytes +
         stage.trained * context.dense_state.parameters +
         stage.trained_experts * context.expert_state.parameters;
}

double gradient_bytes(const StageContext& context, const StageContents& stage) {
  return stage.trained * context.dense_state.gradients +
         stage.trained_experts * context.expert_state.gradients + stage.tables * kTableBytes;
}

double optimizer_bytes(const StageContext& context, const StageContents& stage) {
  return stage.trained * context.dense_state.optimizer +
         stage.trained_experts * context.expert_state.optimizer + stage.tables * 2 * kTableBytes;
}

double main_copy_bytes(const StageContext& context, const StageContents& stage) {
  return stage.trained * context.dense_state.main_copy +
         stage.trained_experts * context.expert_state.main_copy;
}

void set_offloaded(const StageContext& context, const StageContents& stage, StageMemory& memory) {
  const Offload& offload = context.job->offload;
  if (!offload.any()) {
    return;
  }
  const auto add = [&](double bytes, double resident, OffloadTo to) {
    memory.offloaded_bytes += bytes * (1 - resident);
    memory.host_bytes += to == OffloadTo::kHost ? bytes * (1 - resident) : 0;
  };
  const double gradients = gradient_bytes(context, stage);
  add(parameter_bytes(context, stage), context.resident.parameters, offload.parameters);
  add(gradients, context.resident.gradients, offload.gradients);
  add(optimizer_bytes(context, stage), context.resident.optimizer, offload.optimizer);
  add(stage.activations, context.resident.staying_activations, offload.activations);
  if (context.job->framework.states == StateLayout::kDeepSpeed &&
      offload.optimizer == OffloadTo::kHost) {
    memory.host_bytes += zero_buffers(context, stage);
  } else if (offload.optimizer != OffloadTo::kNone && offload.gradients == OffloadTo::kNone &&
             !streams_optimizer(*context.job)) {
    memory.host_bytes += gradients * offload.optimizer_share;  // the update reads them there
  }
}

}  // namespace trireme::planner
