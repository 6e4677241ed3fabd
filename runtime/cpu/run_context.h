// From an op's operands and dims to the functions of context parallelism, the ring's among them.
#pragma once

#include "core/kernels.h"
#include "runtime/cpu/call.h"

namespace trireme::runtime::cpu {

template <typename T>
void run_context(const Call<T>& call, Kernel kernel);
template <typename T>
void run_ring(const Call<T>& call, Kernel kernel);

}  // namespace trireme::runtime::cpu
