// What a framework's host issues for each part of a layer, for a unit, a micro-batch and a step:
// counted from traces of the real programs, part by part (planner/plan/host_counts.json). A
// framework without such counts issues the kernels of models/work.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/work.h"
#include "planner/plan/framework.h"

namespace trireme::planner {

// Launches of kernels, copies and fills; and the host's time for them in plain launches, those of
// one elementwise operator called from Python.
struct HostCount {
  double launches = 0, plain = 0;
};

struct PassCount {
  HostCount forward, backward;
};

struct HostCounts {
  std::string name, source;
  models::Implementation implementation = models::Implementation::kEagerTorch;
  bool looped_only = false;              // `sparse` and `expert` are of experts in a loop
  bool deterministic = false;            // with a fill of what each launch writes
  bool waits_every_micro_batch = false;  // for the loss, at the end of each forward
  double kernel = 1;                     // plain launches of a kernel whose part was not counted
  double skew = 1;  // what waiting for the other ranks' hosts adds, where units hold them together
  PassCount norm, product, rotary, attention, activation, residual;
  PassCount shared_heads;     // of attention whose heads share keys and values
  PassCount embedding, loss;  // the micro-batch's own work is theirs
  PassCount collective;       // of tensor parallelism
  // Of selective recompute by PyTorch's policy of ops, which asks in Python for every op, forward
  // and again where it is repeated.
  PassCount per_op;
  PassCount ring;           // of context parallelism, for each rank of an attention's ring
  PassCount sparse;         // of a layer with experts: its router, permutations and their counts
  PassCount packed_sample;  // of a layer for each sample that is packed into its sequence
  // Of one whose context ranks exchange heads for tokens, for each sample and rank of them.
  PassCount packed_exchange;
  bool packed_waits = false;  // forward's come behind a wait for the GPU, which has nothing to do
  PassCount expert;  // of each further expert of the rank, where they run one after the other
  double unit_gather = 0, unit_reduce = 0, unit_hooks = 0;  // plain launches of a sharded unit
  HostCount micro_batch_tensor;  // a parameter tensor's, when gradients are summed by micro-batch
  HostCount step_tensor, step;   // after the last backward: of a tensor, and whatever the model
};

// Seconds of a plain launch over those in which the machine launches a kernel from C++, on the host
// of the traces: 26 us without the profiler, for 5.
inline constexpr double kPlainLaunch = 5.2;

const std::vector<HostCounts>& host_counts();
// Of the framework as it is set up, by its name and the layers that it runs: nothing where these
// were not counted (Transformer Engine's).
const HostCounts* host_counts_of(const Framework& framework);
// What every packed sample adds to a layer, whether its layers were counted or not; where `ranks`
// of context parallelism exchange heads for tokens, putting its parts in order too.
PassCount packed_sample_count(const Framework& framework, std::int64_t ranks);
bool waits_for_packed_samples(const Framework& framework);

// What a part takes, and nothing for a product that its attention counts. Parts that were not
// counted are as many plain launches as they have kernels.
PassCount product_count(const HostCounts& counts, models::Part part);
PassCount pass_count(const HostCounts& counts, models::Part part, int kernels, bool shares_heads);
PassCount attention_count(const HostCounts& counts, bool shares_heads);
bool shares_heads(const models::Transformer& model);
// What a sparse layer has besides, on a rank of so many experts.
PassCount sparse_count(const HostCounts& counts, double experts);
// Of a pass's whole work. A product has its backward as two, half of the count each.
HostCount counted_launches(const HostCounts& counts, const models::PassWork& work, bool backward,
                           bool shares_heads);

}  // namespace trireme::planner
