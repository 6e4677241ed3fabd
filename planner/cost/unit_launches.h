// What the host does around the gather and the reduction of a unit, in launches of a kernel.
#pragma once

#include "planner/plan/host_counts.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

struct UnitLaunches {
  double gather = 0, reduce = 0;
  double hooks = 0;  // of one micro-batch, half of them in its forward
};

// Of `units` units with `layers` layers in all; zero where the framework names none. Source:
// PyTorch's FSDP2 in code: copies in and out, events, parameters swapped; with tensor parallelism
// every parameter tensor is a DTensor over two meshes that is wrapped again each time.
UnitLaunches unit_launches(const Job& job, bool tensor_parallel, double units, double layers);

// What the experts of a sparse layer add to its unit's hooks and reduction where each is a module
// of its own under ZeRO-3, which hooks every module and reduces every tensor.
UnitLaunches looped_expert_launches(const Job& job);

// Whether units are gathered and reduced over several ranks: all, or those of experts alone, which
// more ranks copy where fewer split them.
bool spreads_units(const Job& job, const Plan& plan);

// Whether the host works around units under this sharding. Here and below `counts`: those of the
// framework (host_counts_of), looked up once by who asks often.
bool has_unit_hosts(const Framework& framework, const HostCounts* counts, Sharding sharding);
// Whether a repeated forward runs its hooks again: ZeRO's are of every module, PyTorch's of a unit
// stand around what is repeated.
bool hooks_repeat(const Framework& framework);

// In plain launches, 0 where they were not counted: what adds one of several micro-batches'
// gradients to a stage's sums (counted where hooks do; sums of the model's type that are reduced
// once a step are autograd's own, a launch a tensor from C++), and what ends its step. Its
// optimizer walks the tensors of `shards` ranks in turn.
double micro_batch_host(const Job& job, const HostCounts& counts, double layers, bool reduces_each);
double step_host(const Job& job, double layers, double shards);
// Megatron's distributed optimizer cuts its buffers, so that a rank owns some tensors only; others
// cut every tensor.
double step_shards(const Framework& framework, const Plan& plan);

}  // namespace trireme::planner
