// Random operands (products of zeros run faster than products of data), and initial weights.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/backend.h"
#include "runtime/cuda/number_format.h"

namespace trireme::runtime::cuda {

// Uniform in [-1, 1), rounded to the format, a function of the seed and the place.
void fill_random(cudaStream_t stream, void* target, NumberFormat format, std::int64_t count,
                 std::uint64_t seed);

// The values of core/random.h, to a few last places of a double, in fp32; a view of the compute
// type gets the cast of those.
void fill_normal(cudaStream_t stream, const View& view, const NormalFill& fill);

}  // namespace trireme::runtime::cuda
