#include "planner/cost/own_memory.h"

#include <algorithm>
#include <initializer_list>

#include "core/units.h"
#include "planner/cost/own_one_backward.h"
#include "planner/cost/own_parts.h"
#include "planner/cost/pipeline_time.h"
#include "planner/lower/shape.h"

namespace trireme::planner {

using own::kCompute;
using own::kept_gradient;
using own::kept_layers;
using own::kMaster;
using own::LayerBytes;
using own::Stage;
using own::Tensors;
using own::Whole;

namespace {

double as_double(std::int64_t value) {
  return static_cast<double>(value);
}

// Bytes that stay between steps.
void add_states(const Plan& plan, double elements, MemoryItems& items) {
  const double shards = plan.sharding == Sharding::kNone ? 1 : as_double(plan.sharded);
  items.parameters = plan.sharding == Sharding::kFull ? 0 : kCompute * elements;
  items.gradients = kept_gradient(plan, elements);
  items.optimizer = 3 * kMaster * elements / shards;
}

// Buffers of exchanges between stages that are alive in a backward: what the next action starts
// from, already received, and what the action before sent.
double exchange_bytes(const Job& job, const Plan& plan, const Tensors& t, std::int64_t rank) {
  const bool blocking = exchanges_block(job.framework, plan);
  if (plan.pipeline == 1) {
    return 0;
  }
  const bool wraps = plan.virtual_pipeline > 1;
  const double received = (rank > 0 || wraps) && !(blocking && !wraps) ? t.stream : 0;
  const double sent = (rank + 1 < plan.pipeline || wraps) && !blocking ? t.stream : 0;
  // With as many forwards as the warm-up has, no forward follows the first backward.
  const bool forward_follows =
      plan.schedule != Schedule::kGpipe && plan.micro_batches > plan.pipeline - rank;
  return (forward_follows ? received : 0) + sent;
}

}  // namespace

bool counts_own_memory(const Job& job, const Plan& plan) {
  const models::Transformer& m = job.model;
  return job.framework.implementation == models::Implementation::kTrireme && plan.context == 1 &&
         plan.expert == 1 && !m.moe && !m.latent && !m.parallel_block && m.norms_per_layer == 2 &&
         m.position != models::Position::kAlibi && !m.embedding_norm && !m.attention_sinks &&
         (m.embedding_dim == 0 || m.embedding_dim == m.hidden) &&
         plan.schedule != Schedule::kZeroBubbleH2 &&
         job.precision == topologies::Precision::kBf16 && job.optimizer == Optimizer::kAdam &&
         job.attention == models::AttentionKernel::kFlash;
}

StageMemory own_stage_memory(const Job& job, const Plan& plan, std::int64_t rank) {
  const lowering::Shape shape = lowering::shape_of(job, plan);
  const Tensors t = own::tensors_of(job, shape);
  const LayerBytes layer = own::layer_bytes(job, plan, t);
  const Stage stage = own::stage_of(job, plan, shape, t, layer, rank);
  const Whole whole = own::whole_of(job, plan, stage);
  const double ids = (stage.embedding ? 1 : 0) + (stage.head ? 1 : 0);
  const double inputs = ids * 4 * as_double(plan.micro_batches * shape.tokens);
  MemoryItems states;
  add_states(plan, stage.elements, states);
  states.other = inputs;
  const MemoryItems after_backward = states;
  const bool one_backward = plan.pipeline == 1 && plan.micro_batches == 1;
  if (one_backward) {
    states.gradients = 0;
  }

  const double unit_layers = plan.sharding != Sharding::kFull ? 1
                             : plan.fsdp_unit > 0             ? as_double(plan.fsdp_unit)
                                                              : stage.last_chunk_layers;
  // A layer's backward: everything in flight, what it repeats, its own buffers and the gradient
  // coming in.
  const bool full = plan.recompute == Recompute::kFull && plan.recompute_layers != 0;
  const double repeated = full ? layer.whole - t.stream : layer.whole - layer.kept;
  MemoryItems in_layer = states;
  in_layer.activations =
      stage.kept + repeated + layer.peak + t.stream + std::max(0.0, stage.turned);
  in_layer.gathered_parameters = whole.layer_parameters;
  in_layer.communication = exchange_bytes(job, plan, t, rank);
  in_layer.gradients += whole.layer_gradient + whole.head_gradient;
  // Between its halves a micro-batch's whole gradients wait too: norms are written by the first,
  // products by the second.
  const bool split = plan.schedule == Schedule::kZeroBubbleH1 && plan.pipeline > 1;
  if (split && whole.layer_gradient > 0) {
    const double per_layer =
        whole.layer_gradient / std::max(1.0, std::min(stage.last_chunk_layers, unit_layers));
    in_layer.gradients += stage.last_chunk_layers * per_layer * (stage.waiting + 1) -
                          whole.layer_gradient + stage.waiting * whole.head_gradient;
  }
  // One unit later the head's gradient is reduced and the first unit's activations are free.
  MemoryItems later = in_layer;
  later.gradients += whole.layer_gradient - whole.head_gradient;
  const double per_unit = unit_layers;
  later.activations -= std::min(stage.last_chunk_layers, per_unit) * (full ? t.stream : layer.kept);
  if (!split && !one_backward && stage.last_chunk_layers > per_unit &&
      later.total() > in_layer.total()) {
    in_layer = later;
  }
  MemoryItems peak = in_layer;
  if (stage.head) {
    // GPipe keeps every micro-batch's logits until its backward.
    // A split backward keeps them, as their gradient, until its second half.
    const double held = plan.schedule == Schedule::kGpipe ? as_double(plan.micro_batches)
                        : split                           ? stage.waiting + 1
                                                          : 1;
    const double norm = job.model.final_norm ? t.stream + t.norm : 0;
    const double one = t.stream + norm + t.loss_rows;
    const double other = split ? held : held - 1;
    peak.activations += other * (split ? t.stream : one);
    peak.logits = other * t.logits;
    MemoryItems in_head = states;
    in_head.activations = stage.kept + held * one + t.all + t.gathered + t.scattered;
    in_head.logits = held * t.logits;
    in_head.gathered_parameters = whole.head_parameters;
    in_head.gradients += whole.head_gradient;
    in_head.communication = exchange_bytes(job, plan, t, rank);
    if (one_backward) {
      peak = own::worst_of_one_backward({plan, stage, t, layer, whole}, in_head, in_layer, states);
    } else if (in_head.total() > peak.total()) {
      peak = in_head;
    }
  }
  StageMemory memory;
  memory.phases.load = states.total() / kGiB;
  memory.phases.forward = (states.total() + stage.kept) / kGiB;
  memory.phases.backward = peak.total() / kGiB;
  memory.phases.first_optimizer_step = after_backward.total() / kGiB;
  for (double* item : {&peak.parameters, &peak.gradients, &peak.optimizer, &peak.activations,
                       &peak.gathered_parameters, &peak.logits, &peak.communication, &peak.other}) {
    *item /= kGiB;
  }
  memory.items = peak;
  return memory;
}

}  // namespace trireme::planner
