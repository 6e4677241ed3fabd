// Passes over memory that a model writes out in PyTorch's operators, one kernel each, where others
// have one kernel for all.
#pragma once

#include "models/work.h"
#include "planner/plan/framework.h"

namespace trireme::planner {

// Puts the operators in the place of what `work` has fused: norms, where the framework's models
// have them in fp32 (Framework::fp32_norms; transformers' LlamaRMSNorm, traced forward and
// backward), and the rows that come back from the experts, where nothing traces the step into one
// graph (torchtitan v0.2.2, traced forward and backward).
void write_out_passes(const Framework& framework, models::LayerWork& work);

}  // namespace trireme::planner
