// Random operands: products of zeros run faster than products of data.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace trireme::runtime::cuda {

// Uniform in [-1, 1), a function of the seed and the place.
void fill_random(cudaStream_t stream, __nv_bfloat16* target, std::int64_t count,
                 std::uint64_t seed);

}  // namespace trireme::runtime::cuda
