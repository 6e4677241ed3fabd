#include "planner/cost/stage_buffers.h"

#include <algorithm>

#include "planner/cost/in_flight.h"
#include "planner/cost/own_experts.h"
#include "planner/cost/zero_memory.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

namespace {

using models::Implementation;
using topologies::Precision;

bool is_flat(const Job& job) {
  return job.framework.states == StateLayout::kFlatBuffers;
}

// Transformer Engine returns an empty 16-bit tensor for each weight gradient that it accumulated in
// place, one a shape for the process's life.
double stand_in_gradients(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  if (job.framework.implementation != Implementation::kTransformerEngine ||
      !sums_in_place(job.framework)) {
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

// autocast's cache of cast weights: of parameters alone, which views of gathered ones are not.
double weight_casts(const StageContext& context, const StageContents& stage) {
  if (!uses_autocast(*context.job, *context.plan) || context.gathers) {
    return 0;
  }
  const RankParameters& parameters = context.layers->parameters;
  return 2 * (stage.dense_layers * parameters.dense_layer.linear_weights +
              stage.sparse_layers *
                  (parameters.sparse_layer.linear_weights + parameters.sparse_layer.expert) +
              stage.head);
}

// Bytes of an element's 16-bit copy that a product under autocast keeps for its input's gradient:
// of a weight that was gathered in fp32 every use has its own.
double casts_of_gathered(const StageContext& context) {
  return context.gathers && uses_autocast(*context.job, *context.plan) ? 2 : 0;
}

// One micro-batch's residual stream between stages.
double boundary_bytes(const StageContext& context) {
  return 2 * context.tokens * static_cast<double>(context.job->model.hidden) *
         context.sequence_scale;
}

// Boundaries that a stage sends or receives at a time.
double exchanged_boundaries(const Plan& plan, std::int64_t rank) {
  return plan.pipeline > 1 ? 1 + held_sends(plan, rank) : 0;
}

// How much of a unit of this project's layers ranks gather from each other: not the experts that no
// other rank holds, whose weights are cast where they are used (own_expert_transient).
double exchanged_share(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const LayerParameters& layer = context.layers->parameters.sparse_layer;
  const bool alone = stage.sparse_layers > 0 && runs_own_experts(job, *context.plan) &&
                     expert_ranks(job, *context.plan).shards == 1;
  return alone ? layer.dense / (layer.dense + layer.expert) : 1;
}

// Of this project's layers with experts: a unit's whole gradients in fp32, and, one unit later,
// those beside the next one's when what the first kept is free. Experts that no other rank holds
// add up where they stay.
double own_unit_gradients(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const double one =
      job.framework.reduce_bytes * stage.largest_unit * exchanged_share(context, stage);
  const LayerMemory& memory = context.layers->sparse;
  const double freed = plan.recompute == Recompute::kFull ? memory.checkpoint : memory.kept;
  return one +
         std::max(0.0, one - freed * std::max<double>(1, static_cast<double>(plan.fsdp_unit)));
}

// Of a unit of others, gradients as they come, and the reduction's input: that is there when the
// unit's backward is over, and what its layers kept but for the last one's is free.
double unit_gradients(const StageContext& context, const StageContents& stage, double unit,
                      double element) {
  const Plan& plan = *context.plan;
  // Where gradients wait for the last micro-batch, so does the reduction's input.
  const double input = context.unsharded_gradient > 0 ? 0 : context.job->framework.reduce_bytes;
  const LayerMemory& layer =
      stage.dense_layers > 0 ? context.layers->dense : context.layers->sparse;
  const double kept = plan.recompute == Recompute::kFull ? layer.checkpoint : layer.kept;
  const double freed = kept * static_cast<double>(std::max<std::int64_t>(1, plan.fsdp_unit) - 1);
  return element * unit + std::max(0.0, input * unit - freed);
}

}  // namespace

Gathered gathered_of(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const bool frozen = job.training.has_adapters();
  const double element = frozen ? frozen_bytes(job.training.base) : compute_bytes(job);
  const double root_element = frozen ? 2 : element;  // embedding and head are not quantised
  const RunSharding run = run_sharding(job, plan);
  Gathered gathered;
  if (const double casts = weight_casts(context, stage); casts > 0) {
    gathered.at_loss = gathered.at_head = gathered.in_backward = casts;
    return gathered;
  }
  if (context.gathers || run.sharding == Sharding::kFull) {
    const double trained_unit = frozen ? 0 : stage.largest_unit;
    gathered.unit_gradients = stage.sparse_layers > 0 && !frozen && runs_own_experts(job, plan)
                                  ? own_unit_gradients(context, stage)
                                  : unit_gradients(context, stage, trained_unit, element);
  }
  if (!context.gathers) {
    if (frozen && job.training.base == BaseFormat::kFp32 && job.precision != Precision::kFp32 &&
        plan.recompute != Recompute::kFull) {
      // Under autocast every product keeps the 16-bit copy of its weight for its input's gradient.
      gathered.at_loss = 2 * (stage.body() + stage.head);
      gathered.at_head = gathered.in_backward = gathered.at_loss;
    }
    return gathered;
  }
  const double body = stage.body();
  // PyTorch's pipelines, which reduce once, let go what they gathered nevertheless.
  const bool reshard = run.reshards && plan.sharding == Sharding::kFull;
  const double root =
      job.framework.root_unit_stays_gathered ? stage.root : std::min(stage.root, stage.head);
  const bool zero = job.framework.states == StateLayout::kDeepSpeed;
  // FSDP1 gathers nothing ahead of a unit without gradients (its post-backward hook starts that).
  // ZeRO-3 fetches a prefetch bucket more at every module, containers and norms among them, so that
  // it is ahead by as much as stage3_max_live_parameters lets it be: a bound of all that is there
  // (runtime/zero/partitioned_param_coordinator.py).
  const double units_ahead = zero || (frozen && job.framework.sharder == Sharder::kFsdp1)
                                 ? 0
                                 : static_cast<double>(job.framework.prefetch_units);
  const auto most = static_cast<double>(job.framework.prefetch_elements);
  double ahead = zero ? std::max(0.0, most - stage.largest_unit)
                      : std::min(most, stage.chunk - stage.largest_unit);  // not into another pass
  ahead = std::max(ahead, stage.largest_unit * units_ahead);
  gathered.at_loss = reshard ? root_element * root : element * body + root_element * stage.root;
  if (reshard && zero) {
    // The last layers, which are needed again at once, fill what the head leaves of the bound.
    gathered.at_loss += element * std::min(body, std::max(0.0, most - root));
  }
  const double share = exchanged_share(context, stage);
  gathered.in_backward = reshard
                             ? root_element * (job.framework.root_unit_stays_gathered ? root : 0) +
                                   element * share * std::min(body, stage.largest_unit + ahead)
                             : gathered.at_loss;
  // Of PyTorch's backward no gather is under way before its first hook.
  const double early = zero || has_torch_states(job) ? 0 : element * std::min(body, ahead);
  gathered.at_head = std::max(gathered.at_loss, root_element * root + early);
  gathered.most = zero ? element * std::min(body, most) + root_element * stage.table() : 0;
  if (const double casts = casts_of_gathered(context); casts > 0) {
    const double kept = plan.recompute == Recompute::kFull ? 0 : casts * body;
    gathered.at_loss += kept + casts * stage.head;
    gathered.at_head += kept + casts * stage.head;
    gathered.in_backward += std::max(kept, casts * stage.largest_unit);
  }
  return gathered;
}

double communication_of(const StageContext& context, const StageContents& stage,
                        std::int64_t rank) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  double bytes = 0;
  const double boundary = boundary_bytes(context);
  if (plan.pipeline > 1) {
    if (has_torch_states(job)) {
      // PyTorch's stages allocate one receive buffer a micro-batch and direction, and keep their
      // outputs.
      const double buffers = static_cast<double>((rank > 0 ? 1 : 0) + (stage.has_head ? 0 : 1)) *
                             static_cast<double>(plan.micro_batches);
      bytes += boundary * (buffers + (stage.has_head ? 0 : stage.in_flight));
    } else {
      bytes += boundary * exchanged_boundaries(plan, rank);
    }
  }
  bytes += lasting_bucket(job, plan);
  if (is_flat(job) && job.framework.bucket_elements > 0 && plan.sharding != Sharding::kNone) {
    // ZeRO-1 under a Megatron engine: the reduction bucket, its flattened copy and the
    // all-gather's, in 16 bits.
    bytes += 6 * std::min(static_cast<double>(job.framework.bucket_elements),
                          stage.trained + stage.trained_experts);
  }
  return bytes;
}

double workspaces_of(const StageContext& context, const StageContents& stage) {
  return context.constant + stand_in_gradients(context, stage) +
         context.layers->fp8_weight_copies * stage.body();
}

double stepped_gradients(const StageContext& context, const StageContents& stage) {
  const double all = gradient_bytes(context, stage);
  const bool one_by_one =
      context.job->training.optimizer_in_backward || context.resident.gradients < 1;
  const double largest = std::max(stage.head, stage.largest_unit);
  return one_by_one ? std::min(all, largest * context.dense_state.gradients) : all;
}

double bucket_bytes(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const bool none = plan.sharding == Sharding::kNone;
  if (is_flat(job)) {
    // Sharded states are reduced without DDP: nanotron flattens the fp32 gradients first
    // (distributed.py reduce_scatter_coalesced), and half of that finds room where activations
    // were.
    const bool copies = none ? plan.replicas > 1 : plan.data_parallel() > 1;
    return copies ? job.framework.ddp_bucket_bytes * (stage.trained + stage.trained_experts) : 0;
  }
  return has_torch_states(job) && none && plan.replicas > 1 ? stepped_gradients(context, stage) : 0;
}

double workspace_bytes(const StageContext& context, const std::vector<ChunkLayers>& split,
                       std::int64_t rank) {
  return workspaces_of(context, stage_of(context, split, rank));
}

double lasting_communication_bytes(const StageContext& context,
                                   const std::vector<ChunkLayers>& split, std::int64_t rank) {
  const Plan& plan = *context.plan;
  const StageContents stage = stage_of(context, split, rank);
  const double at_hand = boundary_bytes(context) * exchanged_boundaries(plan, rank);
  return std::max(0.0,
                  communication_of(context, stage, rank) + bucket_bytes(context, stage) - at_hand);
}

double backward_communication_bytes(const StageContext& context,
                                    const std::vector<ChunkLayers>& split, std::int64_t rank) {
  const StageContents stage = stage_of(context, split, rank);
  // Of gradients that are sharded a unit's is written and another on the wire.
  const bool sharded = context.plan->sharding == Sharding::kGradients;
  const double at_hand = sharded ? 2 * 2 * stage.largest_unit : 0;
  return std::max(0.0, backward_buckets(context, stage).bytes - at_hand);
}

bool backward_communication_waits(const StageContext& context) {
  return backward_buckets(context, {}).wait;
}

bool backward_communication_at_loss(const StageContext& context) {
  return backward_buckets(context, {}).at_loss;
}

double weight_cast_bytes(const StageContext& context, const std::vector<ChunkLayers>& split,
                         std::int64_t rank) {
  return weight_casts(context, stage_of(context, split, rank));
}

}  // namespace trireme::planner
