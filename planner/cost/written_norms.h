// Norms that a model writes out in PyTorch's operators, one kernel each, in fp32.
#pragma once

#include "models/work.h"
#include "planner/plan/framework.h"

namespace trireme::planner {

// Puts the operators in the place of the fused norms of `work`, where the framework's models have
// them (Framework::fp32_norms). Source: transformers' LlamaRMSNorm, traced forward and backward.
void write_out_norms(const Framework& framework, models::LayerWork& work);

}  // namespace trireme::planner
