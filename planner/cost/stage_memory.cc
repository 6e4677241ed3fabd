#include "planner/cost/stage_memory.h"

#include <algorithm>

#include "planner/cost/layer_times.h"
#include "planner/cost/own_gradients.h"
#include "planner/cost/stage_buffers.h"
#include "planner/cost/stage_contents.h"
#include "planner/cost/state_memory.h"
#include "planner/cost/zero_memory.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

bool makes_zero_gradients(const Job& job, const Plan& plan) {
  return job.framework.states == StateLayout::kDeepSpeed && plan.micro_batches <= 1 &&
         plan.sharding != Sharding::kFull && zero_sum_bytes(job, plan.sharding) < 4;
}

namespace {

// The moments that can be a stage's peak, and the one before it all.
struct Moments {
  MemoryItems load, forward, loss, head_backward, layer_backward, first_split, last_backward,
      root_reduce, head_reduce, step;
};

// Gradients that wait while another micro-batch runs: all of them for a flat buffer, PyTorch's from
// the second micro-batch on.
double waiting_gradients(const StageContext& context, const StageContents& stage) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const double stored = (stage.trained * context.dense_state.gradients +
                         stage.trained_experts * context.expert_state.gradients) *
                        context.resident.gradients;
  if (frees_gradients(job, plan) || makes_zero_gradients(job, plan)) {
    return 0;
  }
  if (!has_torch_states(job)) {
    return stored;
  }
  if (plan.micro_batches <= 1) {
    return 0;
  }
  return context.unsharded_gradient > 0
             ? (stage.trained + stage.trained_experts) * context.unsharded_gradient
             : stored;
}

// Embedding and head are reduced together, as one unit or as the one table of both.
bool is_one_root(const StageContext& context, const StageContents& stage) {
  return stage.embedding && stage.has_head &&
         (context.job->framework.root_unit_stays_gathered || context.job->model.tied_embeddings);
}

// PyTorch's gradients come into being layer by layer where nothing waits from a micro-batch before:
// with little kept (full recompute) the first layers' backward, which is last, is the fullest
// moment, or the reduction of FSDP2's root unit behind it. Measured on PyTorch 2.11: the last but
// one layer runs beside the sharded gradients of all but three; the root's reduction holds its
// input in the reduction's type, its result, and the embedding's gradient in 16 bits.
void set_late_moments(const StageContext& context, const StageContents& stage,
                      const MemoryItems& base, Moments& moments) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  moments.last_backward = moments.layer_backward;
  const double layers = stage.dense_layers + stage.sparse_layers;
  const bool own = frees_gradients(job, plan);
  const bool late = own || has_torch_states(job) || makes_zero_gradients(job, plan);
  if (!late || plan.micro_batches > 1 || job.training.has_adapters() || layers < 1 ||
      job.training.optimizer_in_backward || context.resident.gradients < 1) {
    return;
  }
  const double dense = (stage.trained - stage.root) * context.dense_state.gradients;
  const double experts = stage.trained_experts * context.expert_state.gradients;
  const double there = std::max(0.0, layers - (context.gathers && !own ? 3 : 1)) / layers;
  moments.last_backward.gradients +=
      there * dense + std::min(there * experts, experts - own_expert_gradients(context, stage));
  if (own && !is_one_root(context, stage)) {  // the head's unit is reduced first
    moments.last_backward.gradients +=
        stage.head * context.dense_state.gradients - head_gradient_bytes(context, stage);
  }
  moments.last_backward.activations -= there * base.activations;
  if (run_sharding(job, plan).sharding == Sharding::kFull) {
    moments.last_backward.gathered_parameters -=
        there * std::max(0.0, base.gathered_parameters - compute_bytes(job) * stage.root);
  }
  if (context.gathers && job.framework.root_unit_stays_gathered) {
    const double root = stage.root;
    moments.root_reduce = base;
    moments.root_reduce.activations = 0;
    moments.root_reduce.gathered_parameters = 0;
    moments.root_reduce.gradients += dense + experts + root * context.dense_state.gradients +
                                     compute_bytes(job) * std::max(0.0, root - stage.head);
    moments.root_reduce.communication += job.framework.reduce_bytes * root;
  }
}

// The reduction of an end's own unit: its gradient in 16 bits beside the reduction's input, when
// the logits are gone; of the embedding's when the micro-batch is done too.
void set_end_reduction(const StageContext& context, const StageContents& stage, Moments& moments) {
  const Job& job = *context.job;
  MemoryItems& items = moments.root_reduce;
  const double elements =
      stage.embedding && !is_one_root(context, stage) ? stage.root - stage.head : stage.root;
  if (stage.embedding) {
    items.activations *= 1 - 1 / std::max(1.0, stage.in_flight);
    items.gathered_parameters = std::min(
        items.gathered_parameters, run_sharding(job, *context.plan).sharding == Sharding::kFull
                                       ? compute_bytes(job) * stage.root
                                       : items.gathered_parameters);
  }
  items.gradients += sums_gradients_whole(job) ? 0 : compute_bytes(job) * elements;
  if (context.unsharded_gradient == 0) {
    items.communication += job.framework.reduce_bytes * elements;
  }
}

// Of one stage with a unit for each end the head's comes when all is still kept: both, beside what
// is gathered then.
void set_head_reduction(const StageContext& context, const StageContents& stage,
                        const Gathered& gathered, const MemoryItems& base, Moments& moments) {
  if (!stage.embedding || !stage.has_head || is_one_root(context, stage)) {
    return;
  }
  const Job& job = *context.job;
  moments.head_reduce = base;
  moments.head_reduce.gathered_parameters += gathered.at_head - gathered.at_loss;
  moments.head_reduce.gradients += compute_bytes(job) * stage.head;
  moments.head_reduce.communication +=
      context.unsharded_gradient == 0 ? job.framework.reduce_bytes * stage.head : 0;
}

// PyTorch's gradients come into being with a chunk's first backward. Where all forwards come before
// that, a chunk is done before the next one's backward begins: the fullest moment is the first
// backward of the last chunk, the second one, or the second one of the first chunk, when what the
// other chunks had is reduced and let go.
void set_first_backward(const StageContext& context, const StageContents& stage,
                        MemoryItems& base) {
  const auto micro_batches = static_cast<double>(context.plan->micro_batches);
  if (!has_torch_states(*context.job) || micro_batches < 2 || stage.chunks_before_backward == 0) {
    return;
  }
  const double chunk = base.activations / stage.chunks;
  if (stage.chunks_before_backward < stage.chunks) {
    const double there = base.gradients * (1 - stage.chunks_before_backward / stage.chunks);
    if (base.activations + there > chunk + base.gradients) {
      base.gradients = there;
    } else {
      base.activations = chunk;
    }
    return;
  }
  const double one = chunk / micro_batches;
  const double done = 1 - 1 / stage.chunks;
  MemoryItems first = base;
  first.gradients = 0;
  MemoryItems second = base;
  second.gradients /= stage.chunks;
  second.activations -= one;
  MemoryItems last = base;
  last.activations = chunk - one;
  last.gradients = base.gradients / stage.chunks + done * gradient_bytes(context, stage);
  if (context.unsharded_gradient > 0) {
    const double let_go = done * compute_bytes(*context.job) * stage.body();
    last.gathered_parameters = std::max(0.0, last.gathered_parameters - let_go);
  }
  base = first;
  for (const MemoryItems& items : {second, last}) {
    base = items.total() > base.total() ? items : base;
  }
}

// The last stage's loss and its backward; what of other micro-batches' logits is there beside a
// layer's goes into `base`.
void set_head_moments(const StageContext& context, const StageContents& stage,
                      const Gathered& gathered, MemoryItems& base, Moments& moments) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  // A postponed weight gradient of the head holds the logits' 16-bit gradient.
  const double waiting = std::max(0.0, stage.in_flight - 1) * context.logit_kept +
                         stage.waiting * 2 * context.tokens * context.vocabulary;
  // PyTorch's schedule keeps every micro-batch's output of the last stage; those in flight have
  // it among what the loss keeps.
  // Chunks in turn may have more under way than there are micro-batches.
  const double done = std::max(0.0, static_cast<double>(plan.micro_batches) - stage.in_flight);
  const double outputs = has_torch_states(job) && plan.pipeline > 1
                             ? done * 2 * context.tokens * context.vocabulary
                             : 0;
  moments.forward.logits = waiting + outputs + context.logit_kept;
  moments.loss = base;
  moments.loss.logits = waiting + outputs + context.logit_peak;
  moments.loss.activations += context.head_tokens;
  moments.head_backward = base;
  moments.head_backward.gathered_parameters += gathered.at_head - gathered.at_loss;
  moments.head_backward.logits = waiting + outputs + context.logit_backward;
  moments.head_backward.gradients += head_gradient_bytes(context, stage);
  if (sums_gradients_whole(job) && context.gathers && job.model.tied_embeddings) {
    // Nothing reads the gathered table after the input's gradient.
    moments.head_backward.gathered_parameters -= compute_bytes(job) * stage.head;
  }
  // The head's input gathered, and its gradient before it is scattered.
  moments.head_backward.activations +=
      context.head_tokens + 2 * context.tokens * static_cast<double>(job.model.hidden) *
                                (plan.sequence_parallel ? 2 + context.sequence_scale : 1);
  base.logits = waiting + outputs;
}

Moments moments_of(const StageContext& context, const StageContents& stage,
                   const Gathered& gathered, std::int64_t rank) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  const bool torch = has_torch_states(job);
  MemoryItems base;
  base.parameters = parameter_bytes(context, stage) * context.resident.parameters;
  base.optimizer = optimizer_bytes(context, stage) * context.resident.optimizer;
  base.gradients = waiting_gradients(context, stage);
  base.other = workspaces_of(context, stage);
  base.communication = communication_of(context, stage, rank) + bucket_bytes(context, stage);
  const double stepped = stepped_gradients(context, stage);

  Moments moments;
  moments.load = base;
  const double masters = main_copy_bytes(context, stage);
  moments.load.optimizer = context.resident.optimizer * masters;
  moments.load.gradients = torch ? 0 : base.gradients;
  moments.load.other = context.constant;
  moments.load.communication = 0;

  moments.step = base;
  moments.step.gradients =
      stepped + stage.tables * kTableBytes +
      context.resident.optimizer * (stage.trained * context.dense_state.step +
                                    stage.trained_experts * context.expert_state.step);

  if (job.framework.master_bytes > 0) {
    moments.step.other += zero_step_copies(job, plan, masters / job.framework.master_bytes,
                                           context.resident.optimizer);
  }

  const BackwardBuckets buckets = backward_buckets(context, stage);
  base.communication += buckets.wait ? buckets.bytes : 0;
  base.activations = stage.activations * context.resident.activations;
  base.gathered_parameters = gathered.at_loss;
  set_first_backward(context, stage, base);
  moments.forward = base;
  if (stage.has_head) {
    set_head_moments(context, stage, gathered, base, moments);
    moments.head_backward.other += norm_copy_bytes(context, stage);
  }
  moments.forward.activations += stage.held;
  moments.loss.activations += stage.held;
  if (!buckets.wait) {
    moments.head_backward.communication += buckets.bytes;
    moments.loss.communication += buckets.at_loss ? buckets.bytes : 0;
    base.communication += buckets.bytes;
  }
  moments.layer_backward = base;
  moments.layer_backward.activations += stage.live + stage.turned;
  const double waiting_logits = stage.has_head ? 2 * context.tokens * context.vocabulary : 0;
  if (splits_backward(plan)) {
    moments.layer_backward.logits += waiting_logits;
  }
  moments.layer_backward.gathered_parameters += gathered.in_backward - gathered.at_loss;
  moments.layer_backward.communication += gathered.unit_gradients;
  moments.layer_backward.gradients += own_expert_gradients(context, stage);
  const bool waits = torch || frees_gradients(job, plan) ||
                     (gathered.unit_gradients > 0 && is_one_root(context, stage));
  moments.layer_backward.gradients +=
      waits ? head_gradient_bytes(context, stage) : 0;  // until the root's own reduction
  if (plan.schedule == Schedule::kDualPipeV) {
    moments.first_split = moments.layer_backward;
    moments.first_split.activations += stage.first_split - stage.turned;
    moments.first_split.logits += waiting_logits;
  }
  moments.root_reduce = base;
  if (gathered.unit_gradients > 0) {
    if (!stage.embedding) {
      moments.root_reduce.gathered_parameters = gathered.at_head;
    }
    set_end_reduction(context, stage, moments);
    set_head_reduction(context, stage, gathered, base, moments);
  }
  set_late_moments(context, stage, base, moments);
  return moments;
}

// PyTorch's allocator keeps what a stream freed for that stream. FSDP gathers and reduces on
// streams of their own, so their buffers and the sharded gradients (the reductions' results) never
// serve the forward pass: they add to the main stream's peak, whenever that is.
double side_pools(const StageContext& context, const StageContents& stage, const Gathered& gathered,
                  const MemoryItems& peak) {
  const Job& job = *context.job;
  const Plan& plan = *context.plan;
  if (context.gathers && job.framework.states == StateLayout::kDeepSpeed) {
    return zero_pools(job, stage, gathered, peak);
  }
  if (!has_torch_states(job) || !context.gathers) {
    return 0;
  }
  const bool counted = plan.micro_batches > 1 && context.unsharded_gradient == 0;
  const double sharded = stage.trained * context.dense_state.gradients +
                         stage.trained_experts * context.expert_state.gradients;
  const double gradients = counted ? 0 : context.resident.gradients * sharded;
  // Frozen units as wide as they are stored; tables are not quantised.
  const bool frozen = job.training.has_adapters();
  const double unit =
      (frozen ? frozen_bytes(job.training.base) : compute_bytes(job)) * stage.largest_unit;
  return gradients + std::max(compute_bytes(job) * stage.root + unit, 2 * unit);
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
  return stage_memory(context, contents_of(context, split, rank), rank);
}

StageMemory stage_memory(const StageContext& context, const StageContents& contents,
                         std::int64_t rank) {
  StageContents stage = contents;
  set_trained(context, stage);
  const Gathered gathered = gathered_of(context, stage);
  const Moments moments = moments_of(context, stage, gathered, rank);
  StageMemory memory;
  memory.phases.load = moments.load.total() / kGiB;
  memory.phases.forward = moments.forward.total() / kGiB;
  memory.phases.first_optimizer_step = moments.step.total() / kGiB;
  struct Peak {
    const MemoryItems* items;
    double bytes;
    explicit Peak(const MemoryItems& of) : items(&of), bytes(of.total()) {}
    void raise(const MemoryItems& other) { raise(Peak(other)); }
    void raise(const Peak& other) { *this = other.bytes > bytes ? other : *this; }
  };
  Peak peak(moments.layer_backward);
  peak.raise(moments.loss);
  peak.raise(moments.first_split);
  Peak early = peak;
  early.raise(moments.forward);
  // The head's gradient and backward's buckets take their segments wherever the fullest moment is;
  // at their own they are counted.
  const BackwardBuckets buckets = backward_buckets(context, stage);
  const auto reserved_at = [&](const Peak& moment, bool head_is_there) {
    const bool before =
        (moment.items == &moments.loss && !buckets.at_loss) || moment.items == &moments.forward;
    return moment.bytes + side_pools(context, stage, gathered, *moment.items) +
           own_segments(context, stage,
                        {.head_gradient = head_is_there ? 0 : head_gradient_bytes(context, stage),
                         .buckets = before && !buckets.wait ? buckets.bytes : 0});
  };
  double reserved = reserved_at(early, false);
  if (stage.has_head) {
    reserved = std::max(reserved, reserved_at(Peak(moments.head_backward), true));
  }
  peak.raise(moments.head_backward);
  early.raise(moments.head_backward);
  // The late moments have the gradients themselves, which the side pools hold beside the others.
  peak.raise(moments.last_backward);
  peak.raise(moments.root_reduce);
  peak.raise(moments.head_reduce);
  memory.phases.backward = peak.bytes / kGiB;
  peak.raise(early);
  peak.raise(moments.step);
  reserved = std::max(reserved, peak.bytes);
  memory.reserved_base = reserved / kGiB;
  memory.largest_block = stage.has_head ? context.logit_block / kGiB : 0;
  memory.exchanged_block =
      context.plan->tensor > 1
          ? 2 * context.tokens * static_cast<double>(context.job->model.hidden) / kGiB
          : 0;
  memory.items = *peak.items;
  scale(memory.items);
  set_offloaded(context, stage, memory);
  return memory;
}

}  // namespace trireme::planner
