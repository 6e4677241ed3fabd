// Scales and casts of products in 8 bits (core/kernels.h). Pointers are device pointers, aligned to
// 16 bytes; extents are multiples of 16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/number_format.h"

namespace trireme::runtime::cuda {

// Rows that came to experts, one expert's behind the other's: counts[source][expert] of them. No
// counts: all rows are one matrix's.
struct ArrivedRows {
  const std::int32_t* counts = nullptr;
  int sources = 1, experts = 0;
};

// x: `count` numbers in rows of `width`.
void narrow_scale(cudaStream_t stream, const __nv_bfloat16* x, float* scale, std::int64_t count,
                  NumberFormat format, std::int64_t width = 0, const ArrivedRows& arrived = {});

struct NarrowCast {
  const __nv_bfloat16* x;  // [rows, columns]
  const float* scale;
  std::uint8_t* codes;   // null: not wanted
  std::uint8_t* turned;  // [columns, turned_width]; null: not wanted
  std::int64_t rows, columns;
  NumberFormat format;
  std::int64_t turned_width;  // rows; of experts narrow_width of as many (core/kernels.h)
  ArrivedRows arrived = {};   // then there is room for `rows`, any number
  float* largest = nullptr;   // where the largest magnitude is noted; null: nowhere
};
// One pass over x, whichever is wanted.
void narrow_cast(cudaStream_t stream, const NarrowCast& cast);

// Of `steps` rows of `tensors` magnitudes, those from `first_gradient` on of gradients.
void delayed_scales(cudaStream_t stream, float* history, float* scales, int tensors, int steps,
                    int first_gradient);

}  // namespace trireme::runtime::cuda
