// The least that must leave the GPU for a plan to fit: what search can offer where nothing fits,
// and check beside a script that does not.
#pragma once

#include <optional>
#include <string>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Whether a framework takes gradients to the host: DeepSpeed and PyTorch's FSDP do, the buffers of
// Megatron and of this project's runtime stay where they are
// (megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py copies the step's shard alone).
bool offloads_gradients(const Framework& framework);

// Tries, one after the other: optimizer states; gradients too, where they can leave; activations
// too; with fully sharded parameters those too. Nothing when the plan fits as it is, or not even
// with all of it (the host's memory has a limit). Requires: check_plan found no violation.
std::optional<Offload> offload_that_fits(const Job& job, const Plan& plan);

// "--offload parameters moves nothing: …": what was asked for and changes nothing under this plan;
// empty: all of it moves.
std::string idle_offload(const Job& job, const Plan& plan);

}  // namespace trireme::planner
