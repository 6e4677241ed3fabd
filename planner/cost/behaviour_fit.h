// The constants of a framework behaviour, at most six fitted, each with a physical meaning. They
// stand in topologies/fitted.json under the framework's name; `megatron-classic` is Megatron before
// Transformer Engine (unfused layers), `fsdp2-compiled` and its like a framework under
// torch.compile.
#pragma once

#include <string>

#include "planner/plan/job.h"
#include "topologies/profile.h"

namespace trireme::planner {

struct BehaviourFit {
  double memory_traffic =
      1;  // bytes that memory-bound passes move over the count of a fused implementation
  double host_factor = 1;  // host time to issue a kernel over the GPU's launch_seconds; of a plain
                           // launch where the host's were counted (planner/plan/host_counts.h)
  double tensor_host_seconds = 0;  // host time that tensor parallelism adds to one layer's forward
                                   // and backward, of a host that launches a kernel in 5 us
  // Of a forward that backward repeats, over its first: PyTorch's checkpoint takes each tensor that
  // is kept through DTensor's dispatch once more.
  double repeated_tensor_host = 1;
  double overlap_slowdown = 0.1;  // share of overlapped communication by which compute gets longer
  double attention_rate =
      1;                     // of its flash kernel over PyTorch's of today (Triton's of 2023: less)
  double new_card_rate = 1;  // of its products on Hopper and later over what the card can do
  double product_rate = 1;   // the same on every card, of a stack older than the card's figures
  double exchange_seconds = 0;  // synchronisation around one pipeline exchange
  double step_seconds = 0;      // data loading, logging, scalars: once a step
  double message_rate = 0;  // bytes per second of a pipeline message on the multiprocessors that
                            // the framework gives it; 0: all that NCCL would take
};

// Of a pipeline message of `bytes` that NCCL, left to itself, carries in `send_recv`.
double message_seconds(const BehaviourFit& fit, double send_recv, double bytes);

// Host seconds of a layer's tensor parallelism where a kernel's launch takes `launch_seconds`: the
// same interpreter runs both. None where the step is traced: a graph works on the local parts.
double tensor_host_seconds(const BehaviourFit& fit, const Framework& framework,
                           double launch_seconds);

// The name under which the constants of this framework stand.
std::string behaviour_name(const Framework& framework);
// From the profile: the behaviour's own entry, else its framework's, else the defaults above.
BehaviourFit behaviour_fit(const Framework& framework, const topologies::Profile& profile);
// The same on the job's GPUs: a host that was counted is quicker for a process alone.
BehaviourFit behaviour_fit(const Job& job);

}  // namespace trireme::planner
