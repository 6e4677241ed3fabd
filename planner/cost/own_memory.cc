#include "planner/cost/own_memory.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>

#include "core/units.h"
#include "planner/cost/in_flight.h"
#include "planner/cost/own_one_backward.h"
#include "planner/cost/own_parts.h"
#include "planner/cost/pipeline_time.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

using own::kCompute;
using own::kept_gradient;
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
void add_states(const Plan& plan, const Stage& stage, MemoryItems& items) {
  const double shards = plan.sharding == Sharding::kNone ? 1 : as_double(plan.sharded);
  const double frozen = stage.elements - stage.trained_elements;
  items.parameters =
      kCompute * (plan.sharding == Sharding::kFull ? frozen / shards : stage.elements);
  items.gradients = kept_gradient(plan, stage.trained_elements);
  items.optimizer = 3 * kMaster * stage.trained_elements / shards;
}

// Adapters of one layer beside a base in 16 bits.
bool trains_as_own(const Training& training) {
  return !training.has_adapters() ||
         (training.trained == 0 && training.base == BaseFormat::kSixteenBit &&
          training.adapter_dropout == 0 && !training.embeddings &&
          (training.targets & kTargetHead) == 0);
}

// Buffers of exchanges between stages that are alive in a backward: what the next action starts
// from, already received, and what the action before sent.
double exchange_bytes(const Plan& plan, const Tensors& t, bool blocking, std::int64_t rank) {
  if (plan.pipeline == 1) {
    return 0;
  }
  const bool wraps = plan.virtual_pipeline > 1;
  const double received = (rank > 0 || wraps) && !(blocking && !wraps) ? t.stream : 0;
  const double sent = (rank + 1 < plan.pipeline || wraps) && !blocking ? t.stream : 0;
  // With as many forwards as the warm-up has, no forward follows the first backward.
  const bool forward_follows =
      plan.schedule != Schedule::kGpipe && plan.micro_batches > plan.pipeline - rank;
  return (forward_follows ? received : 0) + sent + held_sends(plan, rank) * t.stream;
}

// What plans that differ only in what is sharded over whom have in common.
struct Shared {
  Tensors tensors;
  own::Reads reads;
  LayerBytes layer;
  double tokens = 0;  // of a micro-batch
  std::vector<Stage> stages;
};

bool differ_in_sharding_only(const Plan& a, const Plan& b) {
  const auto rest = [](const Plan& plan) {
    return std::tie(plan.tensor, plan.pipeline, plan.virtual_pipeline, plan.micro_batch,
                    plan.micro_batches, plan.sequence_parallel, plan.schedule, plan.recompute,
                    plan.recompute_layers, plan.recompute_modules, plan.stage_layers);
  };
  return rest(a) == rest(b);
}

bool splits_backward(const Plan& plan) {
  return plan.schedule == Schedule::kZeroBubbleH1 && plan.pipeline > 1;
}

// Such a step frees its gradients.
bool has_one_backward(const Plan& plan) {
  return plan.pipeline == 1 && plan.micro_batches == 1;
}

// One stage at the moment looked at; `states` is what stays.
struct Moment {
  const Plan& plan;
  const Shared& shared;
  const Stage& stage;
  const Whole& whole;
  const MemoryItems& states;
};

double layers_of_unit(const Plan& plan, const Stage& stage) {
  if (plan.sharding != Sharding::kFull) {
    return 1;
  }
  return plan.fsdp_unit > 0 ? as_double(plan.fsdp_unit) : stage.last_chunk_layers;
}

// Whole gradients of the layers of one micro-batch that waits for its second half.
double waiting_gradient(const Plan& plan, const Stage& stage, const Whole& whole) {
  const double unit = std::min(stage.last_chunk_layers, layers_of_unit(plan, stage));
  return stage.last_chunk_layers * whole.layer_gradient / std::max(1.0, unit);
}

// Of chunks in turn: whether gradients of the chunk before are still being reduced when this one's
// backward begins. They are over four visits of layers later at most (lower.h), and the forward of
// a chunk lies between.
bool last_chunk_waits(const Plan& plan, const Stage& stage) {
  constexpr double kForwards = 2;
  return plan.virtual_pipeline > 1 && stage.last_chunk_layers <= kForwards;
}

// A layer's backward: everything in flight, what it repeats, its own buffers and the gradient
// coming in.
MemoryItems layer_backward(const Moment& at, double exchanges) {
  const auto& [plan, shared, stage, whole, states] = at;
  const Tensors& t = shared.tensors;
  const LayerBytes& layer = shared.layer;
  const double unit_layers = layers_of_unit(plan, stage);
  const bool full = plan.recompute == Recompute::kFull && plan.recompute_layers != 0;
  const double repeated = full ? layer.whole - t.stream : layer.whole - layer.kept;
  MemoryItems in_layer = states;
  in_layer.activations =
      stage.kept + repeated + layer.peak + t.stream + std::max(0.0, stage.turned);
  in_layer.gathered_parameters = whole.layer_parameters;
  in_layer.communication = exchanges;
  in_layer.gradients += whole.layer_gradient + whole.head_gradient;
  // Between its halves a micro-batch's whole gradients wait too: norms are written by the first,
  // products by the second.
  const bool split = splits_backward(plan);
  if (split && whole.layer_gradient > 0) {
    const double waiting = waiting_gradient(plan, stage, whole);
    in_layer.gradients +=
        waiting * (stage.waiting + 1) - whole.layer_gradient + stage.waiting * whole.head_gradient;
  }
  // One unit later the head's gradient is reduced and the first unit's activations are free.
  const double reduced = whole.layer_gradient - whole.head_gradient;
  const double freed =
      std::min(stage.last_chunk_layers, unit_layers) * (full ? t.stream : layer.kept);
  const bool more = !split && !has_one_backward(plan) && stage.last_chunk_layers > unit_layers;
  if (!split && last_chunk_waits(plan, stage)) {
    in_layer.gradients += whole.layer_gradient;
    // Of one layer: the embedding's too, whose weights its backward does not read.
    if (plan.micro_batches > 1 && stage.last_chunk_layers <= 1 &&
        whole.embedding_gradient > whole.next_embedding) {
      in_layer.gradients += whole.embedding_gradient;
      in_layer.gathered_parameters -= whole.next_embedding;
    }
  } else if (more && reduced > freed) {
    in_layer.gradients += reduced;
    in_layer.activations -= freed;
  }
  return in_layer;
}

// Of a stage below all that is trained.
MemoryItems forward_alone(const Moment& at, double exchanges) {
  MemoryItems items = at.states;
  items.activations = at.shared.tensors.stream + at.shared.layer.forward;
  items.gathered_parameters = at.whole.layer_parameters;
  items.communication = exchanges;
  return items;
}

// The next micro-batch's head runs while the last one's gradient is still being reduced where no
// more than two layers lie between: reductions are over four visits later at most (lower.h). Its
// weights are gathered, which a table that is a unit of its own is no longer in its backward.
bool last_head_waits(const Moment& at) {
  return at.plan.micro_batches > 1 && at.plan.schedule != Schedule::kGpipe &&
         !splits_backward(at.plan) && at.stage.last_chunk_layers <= 1 && at.whole.head_gradient > 0;
}

MemoryItems next_head(const Moment& at, double activations, double exchanges) {
  const auto& [plan, shared, stage, whole, states] = at;
  MemoryItems items = states;
  items.activations = activations + shared.tensors.gathered;
  items.logits = shared.tensors.logits;
  const bool table = plan.sharding == Sharding::kFull && stage.trained.tied_table > 0;
  items.gathered_parameters =
      whole.head_parameters + (table ? kCompute * stage.units.tied_table : 0);
  items.gradients += whole.head_gradient + whole.layer_gradient;
  items.communication = exchanges;
  return items;
}

// The larger of `in_layer` and the head's backward. GPipe keeps every micro-batch's logits until
// its backward; a split backward keeps them, as their gradient, until its second half, which a
// frozen head does not have.
MemoryItems with_head(const Job& job, const Moment& at, const MemoryItems& in_layer) {
  const auto& [plan, shared, stage, whole, states] = at;
  const Tensors& t = shared.tensors;
  const bool split = splits_backward(plan) && shared.reads.head_input;
  const double held = plan.schedule == Schedule::kGpipe ? as_double(plan.micro_batches)
                      : split                           ? stage.waiting + 1
                                                        : 1;
  const double input = shared.reads.head_input ? t.stream : 0;
  const double norm = job.model.final_norm ? input + t.norm : 0;
  const double one = t.stream + norm + t.loss_rows;
  const double other = split ? held : held - 1;
  MemoryItems peak = in_layer;
  peak.activations += other * (split ? t.stream : one);
  peak.logits = other * t.logits;
  MemoryItems in_head = states;
  in_head.activations =
      stage.kept + held * one + t.all + t.scattered + (shared.reads.head_input ? t.gathered : 0);
  in_head.logits = held * t.logits;
  in_head.gathered_parameters = whole.head_parameters;
  in_head.gradients += whole.head_gradient;
  in_head.communication = in_layer.communication;
  if (has_one_backward(plan)) {
    return own::worst_of_one_backward({plan, stage, t, shared.layer, whole}, in_head, in_layer,
                                      states);
  }
  peak = in_head.total() > peak.total() ? in_head : peak;
  if (last_head_waits(at)) {
    const MemoryItems next = next_head(at, stage.kept + one, in_layer.communication);
    peak = next.total() > peak.total() ? next : peak;
  }
  return peak;
}

// What stages with the same layers and ends share: most of a pipeline.
struct Lasting {
  Whole whole;
  MemoryItems states;
  double states_bytes = 0, after_backward = 0;
  bool blocking = false;  // see exchanges_block
};

Lasting lasting_of(const Job& job, const Plan& plan, const Shared& shared, const Stage& stage) {
  Lasting lasting;
  lasting.whole = own::whole_of(job, plan, stage);
  MemoryItems& states = lasting.states;
  add_states(plan, stage, states);
  const double ids = (stage.embedding ? 1 : 0) + (stage.head ? 1 : 0);
  states.other = ids * 4 * as_double(plan.micro_batches) * shared.tokens;  // inputs
  lasting.after_backward = states.total();
  if (has_one_backward(plan)) {
    states.gradients = 0;
  }
  lasting.states_bytes = states.total();
  lasting.blocking = exchanges_block(job.framework, plan);
  return lasting;
}

bool last_alike(const Stage& a, const Stage& b) {
  return a.layers == b.layers && a.trained_layers == b.trained_layers &&
         a.last_chunk_layers == b.last_chunk_layers && a.embedding == b.embedding &&
         a.head == b.head;
}

StageMemory stage_memory(const Job& job, const Plan& plan, const Shared& shared,
                         const Lasting& lasting, std::int64_t rank) {
  const Stage& stage = shared.stages[static_cast<std::size_t>(rank)];
  const Moment at{plan, shared, stage, lasting.whole, lasting.states};
  const double exchanges = exchange_bytes(plan, shared.tensors, lasting.blocking, rank);
  MemoryItems peak =
      stage.trained_layers > 0 ? layer_backward(at, exchanges) : forward_alone(at, exchanges);
  if (stage.head) {
    peak = with_head(job, at, peak);
  }
  StageMemory memory;
  memory.phases.load = lasting.states_bytes / kGiB;
  memory.phases.forward = (lasting.states_bytes + stage.kept) / kGiB;
  memory.phases.backward = peak.total() / kGiB;
  memory.phases.first_optimizer_step = lasting.after_backward / kGiB;
  for (double* item : {&peak.parameters, &peak.gradients, &peak.optimizer, &peak.activations,
                       &peak.gathered_parameters, &peak.logits, &peak.communication, &peak.other}) {
    *item /= kGiB;
  }
  memory.items = peak;
  return memory;
}

// From the rank before to an alike one, where a micro-batch waits for nothing but its backward:
// activations in flight and exchanges differ.
void change_rank(const Plan& plan, const Shared& shared, const Lasting& lasting, std::int64_t rank,
                 StageMemory& memory) {
  const auto at = static_cast<std::size_t>(rank);
  const double kept = shared.stages[at].kept;
  const double exchanges = exchange_bytes(plan, shared.tensors, lasting.blocking, rank);
  memory.items.activations += (kept - shared.stages[at - 1].kept) / kGiB;
  memory.items.communication = exchanges / kGiB;
  memory.phases.forward = (lasting.states_bytes + kept) / kGiB;
  memory.phases.backward = memory.items.total();
}

// What tells the layers' backward of alike stages apart: activations in flight, whole gradients
// that wait for their second half, and exchanges. A stage with the head has none alike.
double varying_bytes(const Plan& plan, const Shared& shared, const Lasting& lasting,
                     std::int64_t rank) {
  const Stage& stage = shared.stages[static_cast<std::size_t>(rank)];
  const double waiting =
      splits_backward(plan) ? stage.waiting * waiting_gradient(plan, stage, lasting.whole) : 0;
  return stage.kept + waiting + exchange_bytes(plan, shared.tensors, lasting.blocking, rank);
}

}  // namespace

bool counts_own_memory(const Job& job, const Plan& plan) {
  const models::Transformer& m = job.model;
  return job.framework.implementation == models::Implementation::kTrireme && plan.context == 1 &&
         plan.expert == 1 && !m.moe && !m.latent && !m.parallel_block && m.norms_per_layer == 2 &&
         !m.function.norm_after && m.function.residual_multiplier == 1 &&
         m.position != models::Position::kAlibi && !m.embedding_norm && !m.attention_sinks &&
         m.multi_token_layers == 0 && trains_as_own(job.training) && job.training.lengths.empty() &&
         !job.offload.any() && (m.embedding_dim == 0 || m.embedding_dim == m.hidden) &&
         plan.schedule != Schedule::kZeroBubbleH2 &&
         job.precision == topologies::Precision::kBf16 && job.optimizer == Optimizer::kAdam &&
         job.attention == models::AttentionKernel::kFlash;
}

struct OwnMemory::State {
  Plan plan;  // of `shared`
  Shared shared;
};

OwnMemory::OwnMemory() : state_(std::make_unique<State>()) {}
OwnMemory::~OwnMemory() = default;
OwnMemory::OwnMemory(OwnMemory&&) noexcept = default;
OwnMemory& OwnMemory::operator=(OwnMemory&&) noexcept = default;

void OwnMemory::share(const Job& job, const Plan& plan, const std::vector<ChunkLayers>& split) {
  Shared& shared = state_->shared;
  if (shared.stages.empty() || !differ_in_sharding_only(state_->plan, plan)) {
    state_->plan = plan;
    const Shape shape = shape_of(job, plan);
    const own::Units units = own::units_of(job, shape);
    shared.tokens = as_double(shape.tokens);
    const own::Units trained = own::trained_units(job, shape, units);
    shared.tensors = own::tensors_of(job, shape);
    shared.reads = own::reads_of(job, shape);
    shared.layer = own::layer_bytes(job, plan, shared.tensors, shared.reads);
    shared.stages.clear();
    for (std::int64_t rank = 0; rank < plan.pipeline; ++rank) {
      shared.stages.push_back(
          own::stage_of(plan, split, {units, trained, shared.tensors, shared.layer}, rank));
    }
  }
}

void OwnMemory::estimate(const Job& job, const Plan& plan, const std::vector<ChunkLayers>& split,
                         std::vector<StageMemory>& stages) {
  share(job, plan, split);
  const Shared& shared = state_->shared;
  stages.resize(static_cast<std::size_t>(plan.pipeline));
  Lasting lasting;
  for (std::int64_t rank = 0; rank < plan.pipeline; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const bool alike = rank > 0 && last_alike(shared.stages[at], shared.stages[at - 1]);
    if (alike && !shared.stages[at].head && !splits_backward(plan)) {
      stages[at] = stages[at - 1];
      change_rank(plan, shared, lasting, rank, stages[at]);
      continue;
    }
    if (!alike) {
      lasting = lasting_of(job, plan, shared, shared.stages[at]);
    }
    stages[at] = stage_memory(job, plan, shared, lasting, rank);
  }
}

void OwnMemory::estimate_peak(const Job& job, const Plan& plan,
                              const std::vector<ChunkLayers>& split,
                              std::vector<StageMemory>& stages) {
  share(job, plan, split);
  const Shared& shared = state_->shared;
  stages.resize(1);
  double most = -1;
  for (std::int64_t rank = 0; rank < plan.pipeline;) {
    const auto first = static_cast<std::size_t>(rank);
    const Lasting lasting = lasting_of(job, plan, shared, shared.stages[first]);
    std::int64_t largest = rank;
    double varying = -1;
    for (; rank < plan.pipeline &&
           last_alike(shared.stages[static_cast<std::size_t>(rank)], shared.stages[first]);
         ++rank) {
      const double bytes = varying_bytes(plan, shared, lasting, rank);
      if (bytes > varying) {
        varying = bytes;
        largest = rank;
      }
    }
    const StageMemory memory = stage_memory(job, plan, shared, lasting, largest);
    if (memory.items.total() > most) {
      most = memory.items.total();
      stages.front() = memory;
    }
  }
}

}  // namespace trireme::planner
