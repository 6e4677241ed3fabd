// Scales and casts of products in 8 bits (core/kernels.h). Pointers are device pointers, aligned to
// 16 bytes; extents are multiples of 16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/number_format.h"

namespace trireme::runtime::cuda {

void narrow_scale(cudaStream_t stream, const __nv_bfloat16* x, float* scale, std::int64_t count,
                  NumberFormat format);

struct NarrowCast {
  const __nv_bfloat16* x;  // [rows, columns]
  const float* scale;
  std::uint8_t* codes;   // null: not wanted
  std::uint8_t* turned;  // [columns, rows]; null: not wanted
  std::int64_t rows, columns;
  NumberFormat format;
};
// One pass over x, whichever is wanted.
void narrow_cast(cudaStream_t stream, const NarrowCast& cast);

}  // namespace trireme::runtime::cuda
