// From an op's operands and dims to products in 8 bits.
#pragma once

#include "core/kernels.h"
#include "runtime/cpu/call.h"

namespace trireme::runtime::cpu {

template <typename T>
void run_narrow(const Call<T>& call, Kernel kernel);

}  // namespace trireme::runtime::cpu
