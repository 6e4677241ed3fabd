#include "planner/cost/own_memory.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <tuple>

#include "core/check.h"
#include "core/units.h"
#include "planner/cost/in_flight.h"
#include "planner/cost/layer_times.h"
#include "planner/cost/own_embedding.h"
#include "planner/cost/own_one_backward.h"
#include "planner/cost/own_parts.h"
#include "planner/cost/own_stages.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

using own::as_double;
using own::Held;
using own::kCompute;
using own::kept_gradient;
using own::kMaster;
using own::LayerBytes;
using own::Run;
using own::Shared;
using own::Stage;
using own::Tensors;
using own::Whole;

namespace {

// ZB-H2's are counted as other frameworks' (counts_own_memory).
bool splits_own_backward(const Plan& plan) {
  return splits_every_backward(plan.schedule) && plan.pipeline > 1;
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
  const Held& held;
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

bool repeats_layers(const Plan& plan) {
  return plan.recompute == Recompute::kFull && plan.recompute_layers != 0;
}

// A layer's backward: everything in flight, what it repeats, its own buffers and the gradient
// coming in.
MemoryItems layer_backward(const Moment& at) {
  const auto& [plan, shared, stage, held, whole, states] = at;
  const Tensors& t = shared.tensors;
  const LayerBytes& layer = shared.layer;
  const bool full = repeats_layers(plan);
  // Of a chunk that repeats some layers they are the first: its backward begins with one that kept
  // all. A split one is fullest at its end.
  const bool last_kept = full && plan.recompute_layers > 0 && !ends_with_weights(plan) &&
                         as_double(plan.recompute_layers) < stage.last_chunk_layers;
  const double repeated = last_kept ? 0 : full ? layer.whole - t.stream : layer.whole - layer.kept;
  MemoryItems in_layer = states;
  in_layer.activations = held.kept + repeated + layer.peak + t.stream + std::max(0.0, held.turned);
  in_layer.gathered_parameters =
      whole.layer_parameters + own::staying_embedding(plan, stage, whole);
  in_layer.communication = held.exchanges;
  in_layer.gradients += whole.layer_gradient + whole.head_gradient;
  // Between its halves a micro-batch's whole gradients wait too: norms are written by the first,
  // products by the second.
  const bool split = splits_own_backward(plan);
  if (split && whole.layer_gradient > 0) {
    const double waiting = waiting_gradient(plan, stage, whole);
    in_layer.gradients +=
        waiting * (held.waiting + 1) - whole.layer_gradient + held.waiting * whole.head_gradient;
  }
  return in_layer;
}

// The same or fuller: beside what the unit or the chunk before has to reduce.
MemoryItems beside_reductions(const Moment& at, MemoryItems in_layer) {
  const auto& [plan, shared, stage, held, whole, states] = at;
  if (splits_own_backward(plan)) {
    return in_layer;
  }
  // One unit later the head's gradient is reduced and the first unit's activations are free. A
  // shared table's is not yet: the final norm, a unit of its own, comes after it.
  const bool table_lasts = stage.embedding && stage.trained.tied_table > 0 && stage.units.head > 0;
  const double reduced = whole.layer_gradient - (table_lasts ? 0 : whole.head_gradient);
  const double unit_layers = layers_of_unit(plan, stage);
  const double freed = std::min(stage.last_chunk_layers, unit_layers) *
                       (repeats_layers(plan) ? shared.tensors.stream : shared.layer.kept);
  if (last_chunk_waits(plan, stage)) {
    in_layer.gradients += whole.layer_gradient;
    // Of one layer: the embedding's too; its backward reads no weights.
    if (plan.micro_batches > 1 && stage.last_chunk_layers <= 1 &&
        whole.embedding_gradient > whole.next_embedding) {
      in_layer.gradients += whole.embedding_gradient;
      in_layer.gathered_parameters -= whole.next_embedding;
    }
  } else if (!has_one_backward(plan) && stage.last_chunk_layers > unit_layers && reduced > freed) {
    in_layer.gradients += reduced;
    in_layer.activations -= freed;
  }
  return in_layer;
}

MemoryItems layers_backward(const Moment& at) {
  const MemoryItems first = layer_backward(at);
  return own::worst_of_embedding({at.plan, at.shared, at.stage, at.held, at.whole, at.states},
                                 first, beside_reductions(at, first));
}

// Of a stage below all that is trained.
MemoryItems forward_alone(const Moment& at) {
  MemoryItems items = at.states;
  items.activations = at.shared.tensors.stream + at.shared.layer.forward;
  items.gathered_parameters = at.whole.layer_parameters;
  items.communication = at.held.exchanges;
  return items;
}

// The next micro-batch's head runs while the last one's gradient is still being reduced where no
// more than two layers lie between: reductions are over four visits later at most (lower.h). Its
// weights are gathered, which a table that is a unit of its own is no longer in its backward.
bool last_head_waits(const Moment& at) {
  return at.plan.micro_batches > 1 && at.plan.schedule != Schedule::kGpipe &&
         !splits_own_backward(at.plan) && at.stage.last_chunk_layers <= 1 &&
         at.whole.head_gradient > 0;
}

MemoryItems next_head(const Moment& at, double activations) {
  const auto& [plan, shared, stage, held, whole, states] = at;
  MemoryItems items = states;
  items.activations = activations + shared.tensors.gathered;
  items.logits = shared.tensors.logits;
  const bool table = plan.sharding == Sharding::kFull && stage.trained.tied_table > 0;
  items.gathered_parameters =
      whole.head_parameters + (table ? kCompute * stage.units.tied_table : 0);
  items.gradients += whole.head_gradient + whole.layer_gradient;
  items.communication = at.held.exchanges;
  return items;
}

// The larger of `in_layer` and the head's backward. GPipe keeps every micro-batch's logits until
// its backward; a split backward keeps them, as their gradient, until its second half, which a
// frozen head does not have.
MemoryItems with_head(const Job& job, const Moment& at, const MemoryItems& in_layer) {
  const auto& [plan, shared, stage, held, whole, states] = at;
  const Tensors& t = shared.tensors;
  const bool split = splits_own_backward(plan) && shared.reads.head_input;
  const double losses = plan.schedule == Schedule::kGpipe ? as_double(plan.micro_batches)
                        : split                           ? held.waiting + 1
                                                          : 1;
  const double input = shared.reads.head_input ? t.stream : 0;
  const double norm = job.model.final_norm ? input + t.norm : 0;
  const double one = t.stream + norm + t.loss_rows;
  const double other = split ? losses : losses - 1;
  MemoryItems peak = in_layer;
  peak.activations += other * (split ? t.stream : one);
  peak.logits = other * t.logits;
  MemoryItems in_head = states;
  in_head.activations =
      held.kept + losses * one + t.all + t.scattered + (shared.reads.head_input ? t.gathered : 0);
  in_head.logits = losses * t.logits;
  in_head.gathered_parameters = whole.head_parameters;
  in_head.gradients += whole.head_gradient;
  in_head.communication = in_layer.communication;
  if (has_one_backward(plan)) {
    return own::worst_of_one_backward({plan, stage, held.kept, t, shared.layer, whole}, in_head,
                                      in_layer, states);
  }
  peak = in_head.total() > peak.total() ? in_head : peak;
  if (held.first_split > 0 && shared.reads.head_input) {
    // The first micro-batch's logits are a gradient that waits for the head's second half.
    MemoryItems first = in_layer;
    first.activations += held.first_split - held.kept + t.stream;
    first.logits = t.logits;
    peak = first.total() > peak.total() ? first : peak;
  }
  if (last_head_waits(at)) {
    const MemoryItems next = next_head(at, held.kept + one);
    peak = next.total() > peak.total() ? next : peak;
  }
  return peak;
}

// What stages with the same layers and ends share: most of a pipeline.
struct Lasting {
  Whole whole;
  MemoryItems states;
  double states_bytes = 0, after_backward = 0;
  double streamed = 0;  // beside those in the update
};

Lasting lasting_of(const Job& job, const Plan& plan, const Shared& shared, const Stage& stage) {
  Lasting lasting;
  lasting.whole = own::whole_of(job, plan, stage);
  MemoryItems& states = lasting.states;
  const bool streams = streams_optimizer(job);
  own::add_states(plan, streams, stage, states);
  const double ids = (stage.embedding ? 1 : 0) + (stage.head ? 1 : 0);
  states.other = ids * 4 * as_double(plan.micro_batches) * shared.tokens +  // inputs
                 shared.workspaces;
  lasting.after_backward = states.total();
  lasting.streamed = streams ? own::streamed_bytes(plan, stage) : 0;
  if (has_one_backward(plan)) {
    states.gradients = 0;
  }
  lasting.states_bytes = states.total();
  return lasting;
}

StageMemory stage_memory_at(const Job& job, const Moment& at, const Lasting& lasting) {
  MemoryItems peak = at.stage.trained_layers > 0 ? layers_backward(at) : forward_alone(at);
  if (at.stage.head) {
    peak = with_head(job, at, peak);
  }
  StageMemory memory;
  memory.phases.load = lasting.states_bytes / kGiB;
  memory.phases.forward = (lasting.states_bytes + at.held.kept) / kGiB;
  memory.phases.backward = peak.total() / kGiB;
  memory.phases.first_optimizer_step = (lasting.after_backward + lasting.streamed) / kGiB;
  if (lasting.streamed > 0) {
    const MemoryItems update = own::in_streamed_update(at.plan, at.stage, lasting.states);
    peak = update.total() > peak.total() ? update : peak;
    memory.offloaded_bytes = memory.host_bytes =
        own::kStates * kMaster * at.stage.trained_elements / own::shards_of(at.plan);
  }
  memory.items = {.parameters = peak.parameters / kGiB,
                  .gradients = peak.gradients / kGiB,
                  .optimizer = peak.optimizer / kGiB,
                  .activations = peak.activations / kGiB,
                  .gathered_parameters = peak.gathered_parameters / kGiB,
                  .logits = peak.logits / kGiB,
                  .communication = peak.communication / kGiB,
                  .other = peak.other / kGiB};
  return memory;
}

// From the rank before to an alike one, where a micro-batch waits for nothing but its backward:
// activations in flight and exchanges differ.
void change_rank(const Lasting& lasting, const Held& before, const Held& held,
                 StageMemory& memory) {
  memory.items.activations += (held.kept - before.kept) / kGiB;
  memory.items.communication = held.exchanges / kGiB;
  memory.phases.forward = (lasting.states_bytes + held.kept) / kGiB;
  memory.phases.backward = memory.items.total();
}

// What tells the layers' backward of alike stages apart: activations in flight, exchanges, and of a
// split one whole gradients that wait for their second half. A stage with the head has none alike.
const Held& fullest_of(const Plan& plan, const Shared& shared, const Run& run,
                       const Lasting& lasting) {
  const double gradient =
      splits_own_backward(plan) ? waiting_gradient(plan, run.stage, lasting.whole) : 0;
  const Held* fullest = nullptr;
  double most = -1;
  for (std::int64_t rank = run.first; rank < run.end; ++rank) {
    const Held& held = shared.held[static_cast<std::size_t>(rank)];
    const double bytes = held.kept + held.waiting * gradient + held.exchanges;
    if (bytes > most) {
      most = bytes;
      fullest = &held;
    }
  }
  TRIREME_CHECK(fullest != nullptr);  // a run has a stage
  return *fullest;
}

// Ranks of context parallelism hold the same layers, and share their states as those of the data
// do; what a rank computes is in `Shared` by then.
const Plan& with_shared_context(const Plan& plan, std::optional<Plan>& states) {
  if (plan.context == 1) {
    return plan;
  }
  states = plan;
  (plan.sharding == Sharding::kNone ? states->replicas : states->sharded) *= plan.context;
  states->context = 1;
  return *states;
}

}  // namespace

StageMemory own_stage_memory(const Job& job, const Plan& asked,
                             const std::vector<ChunkLayers>& split, std::int64_t rank) {
  const Shared shared = own::shared_of(job, asked);
  std::optional<Plan> states;
  const Plan& plan = with_shared_context(asked, states);
  const Stage stage = own::stage_of(plan, split, shared.units, shared.trained, rank);
  const Held held = own::held_of(plan, split, shared, rank);
  const Lasting lasting = lasting_of(job, plan, shared, stage);
  return stage_memory_at(job, {plan, shared, stage, held, lasting.whole, lasting.states}, lasting);
}

struct OwnMemory::State {
  Plan plan;  // of `shared`
  Shared shared;
  const Shared& of(const Job& job, const Plan& asked, const StageSplit& split) {
    if (shared.runs.empty() || !own::differ_in_sharding_only(plan, asked)) {
      plan = asked;
      own::share(job, plan, split, shared);
    }
    return shared;
  }
};

OwnMemory::OwnMemory() : state_(std::make_unique<State>()) {}
OwnMemory::~OwnMemory() = default;
OwnMemory::OwnMemory(OwnMemory&&) noexcept = default;
OwnMemory& OwnMemory::operator=(OwnMemory&&) noexcept = default;

void OwnMemory::estimate(const Job& job, const Plan& asked, const StageSplit& split,
                         std::vector<StageMemory>& stages) {
  const Shared& shared = state_->of(job, asked, split);
  std::optional<Plan> states;
  const Plan& plan = with_shared_context(asked, states);
  stages.clear();
  stages.reserve(static_cast<std::size_t>(plan.pipeline));
  for (const Run& run : shared.runs) {
    const Lasting lasting = lasting_of(job, plan, shared, run.stage);
    const bool each = run.stage.head || splits_own_backward(plan) || lasting.streamed > 0;
    for (std::int64_t rank = run.first; rank < run.end; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const Held& held = shared.held[at];
      if (each || rank == run.first) {
        stages.push_back(stage_memory_at(
            job, {plan, shared, run.stage, held, lasting.whole, lasting.states}, lasting));
      } else {
        stages.push_back(stages.back());
        change_rank(lasting, shared.held[at - 1], held, stages.back());
      }
    }
  }
}

void OwnMemory::estimate_peak(const Job& job, const Plan& asked, const StageSplit& split,
                              double enough_gib, std::vector<StageMemory>& stages) {
  const Shared& shared = state_->of(job, asked, split);
  std::optional<Plan> states;
  const Plan& plan = with_shared_context(asked, states);
  stages.resize(1);
  double most = -1;
  for (const Run& run : shared.runs) {
    const Lasting lasting = lasting_of(job, plan, shared, run.stage);
    const Held& held = fullest_of(plan, shared, run, lasting);
    const StageMemory memory = stage_memory_at(
        job, {plan, shared, run.stage, held, lasting.whole, lasting.states}, lasting);
    if (memory.items.total() > most) {
      most = memory.items.total();
      stages.front() = memory;
    }
    if (most > enough_gib) {
      return;
    }
  }
}

}  // namespace trireme::planner
