// Memory outside PyTorch's allocator: the CUDA context and NCCL's buffers, which nvidia-smi shows
// on top of what the allocator reserved.
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// GiB of the communicators a plan creates, from the list of its groups. Source: NCCL issues 964,
// 864 and 1685 (544 MB for two ranks, 688 MB for more, on NVSwitch machines).
double communicator_gib(const Job& job, const Plan& plan);

}  // namespace trireme::planner
