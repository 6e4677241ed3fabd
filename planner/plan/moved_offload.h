// What a framework's offload moves together: one truth for `--offload` and for what is read of
// launch files.
#pragma once

#include "planner/plan/framework.h"
#include "planner/plan/offload.h"

namespace trireme::planner {

// What of it really leaves the GPU. DeepSpeed's offloaded optimizer takes the gradients along
// (runtime/zero/stage_1_and_2.py, stage3.py: ZeRO-Offload); PyTorch's CPUOffload and
// CPUOffloadPolicy move parameters, gradients and states or nothing. Megatron-Core's gradients stay
// in their buffers (optimizer/cpu_offloading/hybrid_optimizer.py), as this project's runtime's
// would.
Offload moved_together(const Framework& framework, Offload offload);

}  // namespace trireme::planner
