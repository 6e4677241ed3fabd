// From an op's operands and dims to products in 8 bits with a scale for each block of 128.
#pragma once

#include "core/kernels.h"
#include "runtime/cpu/call.h"

namespace trireme::runtime::cpu {

// A cast or a product by blocks; operands, dims and where scales lie: core/kernels.h.
template <typename T>
void run_blocks(const Call<T>& call, Kernel kernel);

}  // namespace trireme::runtime::cpu
