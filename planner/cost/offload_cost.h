// What offload leaves on the GPU, asks of the host, and costs in time. Sources: ZeRO-Offload (Ren
// et al. 2021), ZeRO-Infinity (Rajbhandari et al. 2021), DeepSpeed's memory estimators,
// Megatron-Core's hybrid optimizer, measured links of hosts.
#pragma once

#include "planner/cost/host_machine.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Shares of each state that stay on the GPU. Of activations also that of the layers that never
// leave it: some are there beside them, on their way.
struct ResidentShares {
  double parameters = 1, gradients = 1, optimizer = 1, activations = 1;
  double staying_activations = 1;
};
ResidentShares resident_shares(const Job& job, const Plan& plan);

// Bytes of one rank that leave the GPU, by where they go.
struct OffloadedBytes {
  double host = 0, nvme = 0;
};

// GiB that a node's host needs: what its ranks keep there, pinned buffers, and the process itself.
double host_memory_gib(const Job& job, const Plan& plan, double offloaded_bytes_of_rank);

// Seconds in which a rank's states of so many elements come from the host, are updated on the GPU
// in `on_gpu` seconds and go back, as lower() writes it (streams_optimizer).
double streamed_seconds(const Job& job, const HostMachine& host, double elements, double on_gpu);

// One step of one rank: what the transfers and the update on the host add to it.
struct OffloadWork {
  double trained = 0;                // elements that this rank updates
  double parameters = 0;             // elements that its passes read: what it gathers
  double kept = 0;                   // bytes of activations of one micro-batch that leave the GPU
  double forward = 0, backward = 0;  // seconds of one micro-batch
  double micro_batches = 1;
  double update = 0;  // seconds of the GPU's own update without offload
};
struct OffloadTime {
  double exposed = 0;    // transfers that nothing hides
  double optimizer = 0;  // the update on the host, instead of the GPU's; or the GPU's
};
// `host`: host_of(job), of which a search asks once.
OffloadTime offload_time(const Job& job, const Plan& plan, const HostMachine& host,
                         const OffloadWork& work);

}  // namespace trireme::planner
