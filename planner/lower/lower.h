// From a plan to its step program: what every role of ranks does in one training step, under the
// job's framework.
#pragma once

#include "core/program.h"
#include "planner/plan/job.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

struct LowerOptions {
  ElementWidths
      widths;  // of the backend that will run it; the default is bf16 compute with fp32 masters
  bool executable = false;      // true: refuse what only a simulator can time
  bool keep_gradients = false;  // true: they can be read after the step
  std::int64_t streamed_elements = kStreamedElements;
};

// Requires: check_plan found no violation. Throws Error when the plan or the model has what no
// program is written for yet, and with `executable` also for models outside
// core/kernels.h's table.
//
// What a program does, beyond the plan's own words:
// - Sharding full: a unit is gathered `framework.prefetch_units` block visits ahead, and only when
// the visit before
//   those has ended (so at most prefetch + 1 units are whole at a time); two visits in a row share
//   one gather. Without reshard-after-forward a unit stays whole from its forward to its backward
//   of the same micro-batch.
// - Over the network gathers take turns with reductions on one stream (planner/cost/unit_link.h).
// - A whole gradient that is reduced every micro-batch is waited for four visits later, or when the
//   second next visit's whole gradients are begun.
// - Gradients that stay whole are reduced after the last micro-batch (under trireme with
//   reduce_every_micro_batch after each); sharded ones (ZeRO-2, FSDP) after every one.
// - Under trireme, with one micro-batch and one stage, the memory of a unit's gradients begins with
//   the first write to them and ends with the unit's optimizer step.
// - Optimizer states that this runtime keeps on the host come to the device, kStreamedElements of a
//   unit at a time, are updated there and go back, after the gradients' norm; sharded units then
//   have weights in the compute type on the device, from which they are gathered.
// - Activations that this runtime keeps on the host go down behind each layer's forward, with those
//   of two layers on their way at most, and come back beside the backward of the layer above.
// - Other frameworks' states have the bytes of the closed form (planner/cost/state_memory.h). Units
// that PyTorch, Megatron-FSDP and ZeRO-3 shard have 16-bit gradients, a tensor each, that are
// copied into a reduction's input when they are whole; one input at a time.
// - Distributed optimizer and ZeRO-2 gather the parameters at the start of the step, beside the
// first forward.
// - Full recompute repeats a layer's forward up to the input of its last matrix product (what
// PyTorch's early stop
//   does); frameworks that recompute through autograd hooks (megatron) repeat all of it.
// - Context parallelism gathers keys and values before attention, and again before its backward; or
//   passes them round a ring beside it, and in backward their gradients behind them.
// - Where tensor ranks share experts, each gathers the others' tokens before it sends the rows of
// all
//   to their experts, and the sum over those ranks goes back.
// - Loss and gradients are those of the mean over all tokens of the global batch; reductions are
// sums.
StepProgram lower(const Job& job, const Plan& plan, const LowerOptions& options = {});

}  // namespace trireme::planner
