// Casts to E4M3 with a scale for each block of 128 (core/kernels.h). Pointers are device pointers,
// aligned to 16 bytes; extents are multiples of 128.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace trireme::runtime::cuda {

struct BlockCast {
  const __nv_bfloat16* x = nullptr;  // [rows, columns]
  std::int64_t rows = 0, columns = 0;
  bool square = false;             // blocks of 128 x 128, else of 128 in a row
  std::uint8_t* codes = nullptr;   // null: not wanted
  float* scales = nullptr;         // of their rows
  std::uint8_t* turned = nullptr;  // [columns, rows]; null: not wanted
  float* turned_scales = nullptr;
};
// One pass over x, whichever is wanted.
void block_cast(cudaStream_t stream, const BlockCast& cast);

}  // namespace trireme::runtime::cuda
