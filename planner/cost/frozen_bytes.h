// Bytes of frozen weights beside adapters.
#pragma once

#include "planner/plan/job.h"

namespace trireme::planner {

// Of one frozen element of a linear layer: one under fp8 where weights exist in 8 bits only. MLPerf
// Training 5.0's llama2_70b_lora runs so on 8 H200 and on 8 B200, where 16 bits, or a transposed
// copy that stays, would not fit.
double frozen_element_bytes(const Job& job);

}  // namespace trireme::planner
