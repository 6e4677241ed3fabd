// What a framework's offload moves together: one truth for `--offload` and for what is read of
// launch files.
#pragma once

#include <cstdint>

#include "planner/plan/framework.h"
#include "planner/plan/job.h"
#include "planner/plan/offload.h"

namespace trireme::planner {

// What of it really leaves the GPU. DeepSpeed's offloaded optimizer takes the gradients along
// (runtime/zero/stage_1_and_2.py, stage3.py: ZeRO-Offload); PyTorch's CPUOffload and
// CPUOffloadPolicy move parameters, gradients and states or nothing. Megatron-Core's gradients stay
// in their buffers (optimizer/cpu_offloading/hybrid_optimizer.py), as this project's runtime's
// would.
Offload moved_together(const Framework& framework, Offload offload);

// Whether the optimizer's states lie on the host and go through the GPU's own update, some elements
// at a time: this project's runtime. Others update on the host's cores.
bool streams_optimizer(const Job& job);
// Whether it does so and offloads nothing else.
bool streams_alone(const Job& job);

// Elements of a unit on their way at once, and how many such places on the device take turns: one
// comes, one is updated, one goes.
inline constexpr std::int64_t kStreamedElements = std::int64_t{1} << 23;
inline constexpr int kStreamedPlaces = 3;

}  // namespace trireme::planner
