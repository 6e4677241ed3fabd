// From an op's operands and dims to the functions of routed experts.
#pragma once

#include "core/kernels.h"
#include "runtime/cpu/call.h"

namespace trireme::runtime::cpu {

template <typename T>
void run_experts(const Call<T>& call, Kernel kernel);

}  // namespace trireme::runtime::cpu
