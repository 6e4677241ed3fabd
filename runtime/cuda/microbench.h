// Measures the GPU of this rank and the links between the ranks.
#pragma once

#include "core/microbenchmarks.h"
#include "runtime/coordinator.h"
#include "runtime/cuda/communicators.h"

namespace trireme::runtime::cuda {

MachineFingerprint fingerprint(int device, std::int64_t gpus);

// Collective over the coordinator's ranks, one process a GPU; every rank returns its own points
// (collectives: the slowest rank decides, since all of them take part). Throws Error.
Microbenchmarks measure(Coordinator& coordinator, int device, const MicrobenchSettings& settings,
                        Seconds timeout);

}  // namespace trireme::runtime::cuda
