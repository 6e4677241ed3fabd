#include "planner/cost/stage_memory.h"

#include <algorithm>

#include "planner/cost/in_flight.h"

namespace trireme::planner {

namespace {

using models::Implementation;
using topologies::Precision;

bool is_torch(const Job& job) {
  return job.framework.states == StateLayout::kTorch;
}
bool is_flat(const Job& job) {
  return job.framework.states == StateLayout::kFlatBuffers;
}

// What a stage holds, before any moment is chosen. Bytes and elements.
struct Stage {
  double dense_layers = 0, sparse_layers = 0;
  double elements = 0, experts = 0;  // parameters
  double root = 0;                   // of the embedding and the head
  double largest_unit = 0;           // gathered at once
  double head = 0;                   // output matrix, when this stage has it
  double activations = 0;            // of all micro-batches in flight
  double waiting = 0;                // micro-batches of it whose weight gradient is postponed
  double in_flight = 0;              // of the last chunk
  double live = 0;                   // of the layer whose backward runs, beyond what it kept
  bool embedding = false, has_head = false;
};

double kept_of_chunk(const Plan& plan, const LayerMemory& layer, double layers) {
  if (plan.recompute != Recompute::kFull) {
    return layers * layer.kept;
  }
  const double recomputed = plan.recompute_layers < 0
                                ? layers
                                : std::min(layers, static_cast<double>(plan.recompute_layers));
  return recomputed * layer.checkpoint + (layers - recomputed) * layer.whole;
}

// Beyond what was kept: the layer's recomputed tensors, and what its backward needs at once.
double live_of_layer(const Plan& plan, const LayerMemory& layer) {
  const bool whole = plan.recompute == Recompute::kFull && plan.recompute_layers != 0;
  const double recomputed = whole ? layer.whole : layer.whole - layer.kept;
  return recomputed + layer.transient;
}

double embedding_bytes(const StageContext& context) {
  const Job& job = *context.job;
  const double dropout = job.framework.dropout > 0
                             ? static_cast<double>(job.model.hidden) * context.sequence_scale
                             : 0;
  return context.tokens * (8 + dropout);
}

Stage stage_of(const StageContext& context, const std::vector<ChunkLayers>& split,
               std::int64_t rank) {
  const Plan& plan = *context.plan;
  const RankLayers& layers = *context.layers;
  Stage stage;
  const RankInFlight in_flight_here(plan, rank);
  for (std::int64_t chunk = 0; chunk < plan.virtual_pipeline; ++chunk) {
    const ChunkLayers& part = split[static_cast<std::size_t>(chunk * plan.pipeline + rank)];
    stage.dense_layers += part.dense;
    stage.sparse_layers += part.sparse;
    const InFlight held = in_flight_here.at(chunk);
    stage.in_flight = held.whole;
    stage.waiting = held.weight_gradient;
    stage.activations += held.whole * (kept_of_chunk(plan, layers.dense, part.dense) +
                                       kept_of_chunk(plan, layers.sparse, part.sparse) +
                                       (part.embedding ? embedding_bytes(context) : 0));
    stage.activations += held.weight_gradient * (part.dense * layers.dense.weight_gradient +
                                                 part.sparse * layers.sparse.weight_gradient);
    stage.embedding = stage.embedding || part.embedding;
    stage.has_head = stage.has_head || part.head;
  }
  const RankParameters& parameters = layers.parameters;
  const bool tied_here = context.job->model.tied_embeddings && stage.embedding && stage.has_head;
  stage.root = (stage.embedding ? parameters.embedding : 0) +
               (stage.has_head ? parameters.head - (tied_here ? parameters.head_matrix : 0) : 0);
  stage.head = stage.has_head ? parameters.head_matrix : 0;
  stage.elements = stage.root + stage.dense_layers * parameters.dense_layer.dense +
                   stage.sparse_layers * parameters.sparse_layer.dense;
  stage.experts = stage.sparse_layers * parameters.sparse_layer.expert;
  const double body = stage.elements + stage.experts - stage.root;
  const double layer = std::max(
      stage.dense_layers > 0 ? parameters.dense_layer.dense : 0,
      stage.sparse_layers > 0 ? parameters.sparse_layer.dense + parameters.sparse_layer.expert : 0);
  stage.largest_unit =
      plan.fsdp_unit == 0 ? body : std::min(body, layer * static_cast<double>(plan.fsdp_unit));
  stage.live = std::max(stage.dense_layers > 0 ? live_of_layer(plan, layers.dense) : 0,
                        stage.sparse_layers > 0 ? live_of_layer(plan, layers.sparse) : 0);
  return stage;
}

// Transformer Engine returns an empty 16-bit tensor for each weight gradient that it accumulated in
// place, one a shape for the process's life.
double stand_in_gradients(const StageContext& context, const Stage& stage) {
  const Job& job = *context.job;
  if (!is_flat(job) || job.framework.implementation != Implementation::kTransformerEngine ||
      !job.framework.gradient_accumulation_fusion) {
    return 0;
  }
  const RankParameters& parameters = context.layers->parameters;
  double elements = stage.dense_layers > 0 ? parameters.dense_layer.linear_weights : 0;
  if (stage.sparse_layers > 0) {
    elements += parameters.sparse_layer.linear_weights + parameters.sparse_layer.expert_weight -
                (stage.dense_layers > 0 ? parameters.sparse_layer.attention_weights : 0);
  }
  return 2 * elements;
}

// Parameters gathered at the loss, and while a layer's backward runs.
struct Gathered {
  double at_loss = 0, in_backward = 0;
  double unit_gradients = 0;  // 16-bit gradients and the reduction's input of one unit
};

Gathered gathered_of(const StageContext& context, const Stage& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const double element = compute_bytes(job);
  Gathered gathered;
  if (uses_autocast(job, plan)) {
    // autocast's cache of cast weights
    gathered.at_loss =
        2 * (stage.dense_layers * context.layers->parameters.dense_layer.linear_weights +
             stage.sparse_layers * (context.layers->parameters.sparse_layer.linear_weights +
                                    context.layers->parameters.sparse_layer.expert) +
             stage.head);
    gathered.in_backward = gathered.at_loss;
    return gathered;
  }
  if (!context.gathers) {
    return gathered;
  }
  const double all = stage.elements + stage.experts;
  const double body = all - stage.root;
  const bool reshard = plan.sharding == Sharding::kFull && plan.reshard_after_forward &&
                       job.framework.reshard_after_forward;
  const double root =
      job.framework.root_unit_stays_gathered ? stage.root : std::min(stage.root, stage.head);
  double ahead = stage.largest_unit * static_cast<double>(job.framework.prefetch_units);
  ahead = std::max(ahead, static_cast<double>(job.framework.prefetch_elements));
  gathered.at_loss = element * (reshard ? root : all);
  if (reshard && job.framework.states == StateLayout::kDeepSpeed) {
    // The last layers are needed again at once, so ZeRO-3 keeps them (stage3_max_reuse_distance).
    gathered.at_loss +=
        element * std::min(body, static_cast<double>(job.framework.prefetch_elements));
  }
  gathered.in_backward =
      element * (reshard ? root + std::min(body, stage.largest_unit + ahead) : all);
  gathered.unit_gradients = (element + job.framework.reduce_bytes) * stage.largest_unit;
  return gathered;
}

double communication_of(const StageContext& context, const Stage& stage, std::int64_t rank) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  double bytes = 0;
  const double boundary =
      2 * context.tokens * static_cast<double>(job.model.hidden) * context.sequence_scale;
  if (plan.pipeline > 1) {
    if (is_torch(job)) {
      // PyTorch's stages allocate one receive buffer a micro-batch and direction, and keep their
      // outputs.
      const double buffers = static_cast<double>((rank > 0 ? 1 : 0) + (stage.has_head ? 0 : 1)) *
                             static_cast<double>(plan.micro_batches);
      bytes += boundary * (buffers + (stage.has_head ? 0 : stage.in_flight));
    } else {
      bytes += boundary;
    }
  }
  if (job.framework.states == StateLayout::kDeepSpeed && plan.sharding != Sharding::kNone) {
    // One contiguous reduction bucket, two when reduction overlaps (stage 3's default).
    const double buckets = plan.sharding == Sharding::kFull ? 2 : 1;
    bytes += buckets * 2 *
             std::min(static_cast<double>(job.framework.bucket_elements),
                      stage.elements + stage.experts);
  }
  if (is_flat(job) && job.framework.bucket_elements > 0 && plan.sharding != Sharding::kNone) {
    // ZeRO-1 under a Megatron engine: the reduction bucket, its flattened copy and the
    // all-gather's, in 16 bits.
    bytes += 6 * std::min(static_cast<double>(job.framework.bucket_elements),
                          stage.elements + stage.experts);
  }
  return bytes;
}

// The three moments that can be a stage's peak, and the one before it all.
struct Moments {
  MemoryItems load, forward, loss, head_backward, layer_backward, step;
};

// Gradients that wait while another micro-batch runs: all of them for a flat buffer, PyTorch's from
// the second micro-batch on.
double waiting_gradients(const StageContext& context, const Stage& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const double stored = stage.elements * context.dense_state.gradients +
                        stage.experts * context.expert_state.gradients;
  if (!is_torch(job)) {
    return stored;
  }
  if (plan.micro_batches <= 1) {
    return 0;
  }
  return context.unsharded_gradient > 0
             ? (stage.elements + stage.experts) * context.unsharded_gradient
             : stored;
}

Moments moments_of(const StageContext& context, const Stage& stage, std::int64_t rank) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const bool torch = is_torch(job);
  const Gathered gathered = gathered_of(context, stage);
  const double copies = stand_in_gradients(context, stage);
  const double all = stage.elements + stage.experts;
  MemoryItems base;
  base.parameters = stage.elements * context.dense_state.parameters +
                    stage.experts * context.expert_state.parameters;
  base.optimizer = stage.elements * context.dense_state.optimizer +
                   stage.experts * context.expert_state.optimizer;
  base.gradients = waiting_gradients(context, stage);
  base.other = context.constant + copies + context.layers->fp8_weight_copies * (all - stage.root);
  base.communication = communication_of(context, stage, rank);
  const bool ddp = torch && plan.sharding == Sharding::kNone && plan.replicas > 1;
  const double gradient_bytes = stage.elements * context.dense_state.gradients +
                                stage.experts * context.expert_state.gradients;
  base.communication += ddp ? gradient_bytes : 0;  // DistributedDataParallel's buckets

  Moments moments;
  moments.load = base;
  moments.load.optimizer = stage.elements * context.dense_state.main_copy +
                           stage.experts * context.expert_state.main_copy;
  moments.load.gradients = torch ? 0 : base.gradients;
  moments.load.other = context.constant;
  moments.load.communication = 0;

  moments.step = base;
  moments.step.gradients = gradient_bytes + stage.elements * context.dense_state.step +
                           stage.experts * context.expert_state.step;

  base.activations = stage.activations;
  base.gathered_parameters = gathered.at_loss;
  moments.forward = base;
  if (stage.has_head) {
    // A postponed weight gradient of the head holds the logits' 16-bit gradient.
    const double waiting =
        (stage.in_flight - 1) * context.logit_kept +
        stage.waiting * 2 * context.tokens * context.layers->parameters.vocabulary;
    // PyTorch's schedule keeps every micro-batch's output of the last stage.
    const double outputs = torch && plan.pipeline > 1
                               ? static_cast<double>(plan.micro_batches - 1) * 2 * context.tokens *
                                     context.layers->parameters.vocabulary
                               : 0;
    moments.forward.logits = waiting + outputs + context.logit_kept;
    moments.loss = base;
    moments.loss.logits = waiting + outputs + context.logit_peak;
    moments.loss.activations += context.head_tokens;
    moments.head_backward = base;
    moments.head_backward.logits = waiting + outputs + context.logit_backward;
    moments.head_backward.gradients += 2 * stage.head;
    // The head's input gathered, and its gradient before it is scattered.
    moments.head_backward.activations +=
        context.head_tokens + 2 * context.tokens * static_cast<double>(job.model.hidden) *
                                  (plan.sequence_parallel ? 2 + context.sequence_scale : 1);
  }
  moments.layer_backward = base;
  moments.layer_backward.activations += stage.live;
  moments.layer_backward.gathered_parameters = gathered.in_backward;
  moments.layer_backward.communication += gathered.unit_gradients;
  moments.layer_backward.gradients += torch ? 2 * stage.head : 0;  // until the root's own reduction
  return moments;
}

// PyTorch's allocator keeps what a stream freed for that stream. FSDP gathers and reduces on
// streams of their own, so their buffers and the sharded gradients (the reductions' results) never
// serve the forward pass: they add to the main stream's peak, whenever that is.
double side_pools(const StageContext& context, const Stage& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  if (!is_torch(job) || !context.gathers) {
    return 0;
  }
  const bool counted = plan.micro_batches > 1 && context.unsharded_gradient == 0;
  const double gradients = counted ? 0
                                   : stage.elements * context.dense_state.gradients +
                                         stage.experts * context.expert_state.gradients;
  const double unit = std::max(stage.root + stage.largest_unit, 2 * stage.largest_unit);
  return gradients + compute_bytes(job) * unit;
}

void scale(MemoryItems& items) {
  for (double* item :
       {&items.parameters, &items.gradients, &items.optimizer, &items.activations,
        &items.gathered_parameters, &items.logits, &items.communication, &items.other}) {
    *item /= kGiB;
  }
}

}  // namespace

StageMemory stage_memory(const StageContext& context, const std::vector<ChunkLayers>& split,
                         std::int64_t rank) {
  const Stage stage = stage_of(context, split, rank);
  Moments moments = moments_of(context, stage, rank);
  for (MemoryItems* items : {&moments.load, &moments.forward, &moments.loss, &moments.head_backward,
                             &moments.layer_backward, &moments.step}) {
    scale(*items);
  }
  StageMemory memory;
  memory.phases.load = moments.load.total();
  memory.phases.forward = moments.forward.total();
  memory.phases.first_optimizer_step = moments.step.total();
  const MemoryItems* peak = &moments.layer_backward;
  for (const MemoryItems* items : {&moments.loss, &moments.head_backward}) {
    peak = items->total() > peak->total() ? items : peak;
  }
  memory.phases.backward = peak->total();
  peak = moments.forward.total() > peak->total() ? &moments.forward : peak;
  memory.reserved_base = peak->total() + side_pools(context, stage) / kGiB;
  peak = moments.step.total() > peak->total() ? &moments.step : peak;
  memory.reserved_base = std::max(memory.reserved_base, peak->total());
  memory.largest_block = stage.has_head ? context.logit_block / kGiB : 0;
  memory.exchanged_block =
      context.plan->tensor > 1
          ? 2 * context.tokens * static_cast<double>(context.job->model.hidden) / kGiB
          : 0;
  memory.items = *peak;
  return memory;
}

}  // namespace trireme::planner
