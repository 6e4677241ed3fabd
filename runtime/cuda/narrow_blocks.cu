#include "runtime/cuda/narrow_blocks.h"

#include "core/kernels.h"
#include "runtime/cuda/narrow_tiles.cuh"

namespace trireme::runtime::cuda {
namespace {

static_assert(kTile == kScaleBlock);

constexpr int kRowsOfWarp = kTile / kWarps;
constexpr int kGroupsOfWarp = kRowsOfWarp / kGroup;
constexpr unsigned kAllLanes = 0xffffffffU;

// Of a pair of 16 bits, over the lanes of a warp: a float's bits.
__device__ inline std::uint32_t most_of_warp(std::uint32_t pair) {
  return __reduce_max_sync(kAllLanes, max(pair & 0xffff0000U, pair << 16U));
}

__device__ inline float scale_of(std::uint32_t most) {
  return __uint_as_float(scale_bits(most, kLargestE4m3));
}

// Of a power of two that scale_bits gives.
__device__ inline float inverse_of(float scale) {
  return __uint_as_float((2U * kBias << kMantissa) - __float_as_uint(scale)) *
         (scale == scale ? 1.0F : scale);
}

// A lane's four columns of the rows that its warp has, a group of four rows after the other.
struct Held {
  uint2 rows[kRowsOfWarp];

  __device__ Held(const BlockCast& cast, int warp, int lane) {
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile + kGroup * lane;
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
      const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTile + row_of(warp, i);
      rows[i] = *reinterpret_cast<const uint2*>(cast.x + row * cast.columns + column);
    }
  }
  // In the tile.
  __device__ static int row_of(int warp, int i) {
    return kGroup * (i / kGroup * kWarps + warp) + i % kGroup;
  }
};

// Largest magnitudes of a tile: of each row, as its warp has it; of each column and of all.
struct Most {
  std::uint32_t of_columns[kWarps][kTile];  // as bits of bf16, each warp's rows
  std::uint32_t of_warps[kWarps];
};

// Four codes, a scale each.
__device__ inline std::uint32_t codes_by_column(const uint2& four, const float (&inverse)[kGroup]) {
  const float2 low = {__uint_as_float(four.x << 16U) * inverse[0],
                      __uint_as_float(four.x & 0xffff0000U) * inverse[1]};
  const float2 high = {__uint_as_float(four.y << 16U) * inverse[2],
                       __uint_as_float(four.y & 0xffff0000U) * inverse[3]};
  return static_cast<std::uint32_t>(__nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, __NV_E4M3)) |
         static_cast<std::uint32_t>(__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, __NV_E4M3))
             << 16U;
}

// The scale of the tile, which every thread of its block gets.
__device__ inline float scale_of_tile(const Held& held, Most& most, int warp, int lane) {
  std::uint32_t pair = 0;
#pragma unroll
  for (const uint2& row : held.rows) {
    pair = __vmaxu2(pair, __vmaxu2(row.x & kMagnitudes, row.y & kMagnitudes));
  }
  const std::uint32_t own = most_of_warp(pair);
  if (lane == 0) {
    most.of_warps[warp] = own;
  }
  __syncthreads();
  std::uint32_t all = 0;
  for (const std::uint32_t one : most.of_warps) {
    all = max(all, one);
  }
  return scale_of(all);
}

// Scales of squares lie in rows of whole four, zero beyond the last of `blocks`.
__device__ inline void write_square(float* scales, std::int64_t row, std::int64_t column,
                                    std::int64_t blocks, float scale) {
  const std::int64_t width = (blocks + 3) / 4 * 4;
  float* of_row = scales + row * width;
  of_row[column] = scale;
  for (std::int64_t more = blocks; column + 1 == blocks && more < width; ++more) {
    of_row[more] = 0;
  }
}

__global__ void __launch_bounds__(kThreads) cast_squares_kernel(BlockCast cast) {
  __shared__ TurnedWords words;
  __shared__ Most most;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Held held(cast, warp, lane);
  const float scale = scale_of_tile(held, most, warp, lane);
  const float inverse = inverse_of(scale);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
#pragma unroll
  for (int g = 0; g < kGroupsOfWarp; ++g) {
    std::uint32_t codes[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      codes[i] = codes_of<__NV_E4M3>(held.rows[g * kGroup + i], inverse);
      if (cast.codes != nullptr) {
        const std::int64_t row = first_row + Held::row_of(warp, g * kGroup + i);
        *reinterpret_cast<std::uint32_t*>(cast.codes + row * cast.columns + first_column +
                                          kGroup * lane) = codes[i];
      }
    }
    turn_group(words, lane, g * kWarps + warp, codes);
  }
  if (threadIdx.x == 0 && cast.codes != nullptr) {
    write_square(cast.scales, blockIdx.y, blockIdx.x, gridDim.x, scale);
  }
  if (cast.turned == nullptr) {
    return;
  }
  if (threadIdx.x == 0) {
    write_square(cast.turned_scales, blockIdx.x, blockIdx.y, gridDim.y, scale);
  }
  __syncthreads();
  write_turned(words, cast.turned + first_column * cast.rows + first_row, cast.rows, kTile, kTile);
}

// Each row by itself.
__device__ inline void cast_rows(const BlockCast& cast, const Held& held, int warp, int lane) {
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile + kGroup * lane;
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    const uint2 four = held.rows[i];
    const float scale =
        scale_of(most_of_warp(__vmaxu2(four.x & kMagnitudes, four.y & kMagnitudes)));
    const std::int64_t row = first_row + Held::row_of(warp, i);
    *reinterpret_cast<std::uint32_t*>(cast.codes + row * cast.columns + column) =
        codes_of<__NV_E4M3>(four, inverse_of(scale));
    if (lane == 0) {
      cast.scales[blockIdx.x * cast.rows + row] = scale;
    }
  }
}

// Each column by itself, as rows of the transpose. Of a whole block.
__device__ inline void cast_columns(const BlockCast& cast, const Held& held, Most& most,
                                    TurnedWords& words, int warp, int lane) {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
#pragma unroll
  for (const uint2& row : held.rows) {
    low = __vmaxu2(low, row.x & kMagnitudes);
    high = __vmaxu2(high, row.y & kMagnitudes);
  }
  *reinterpret_cast<uint4*>(most.of_columns[warp] + kGroup * lane) = {
      low << 16U, low & 0xffff0000U, high << 16U, high & 0xffff0000U};
  __syncthreads();
  float inverse[kGroup];
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    std::uint32_t all = 0;
    for (int w = 0; w < kWarps; ++w) {
      all = max(all, most.of_columns[w][kGroup * lane + j]);
    }
    const float scale = scale_of(all);
    inverse[j] = inverse_of(scale);
    if (warp == j) {
      cast.turned_scales[blockIdx.y * cast.columns + static_cast<std::int64_t>(blockIdx.x) * kTile +
                         kGroup * lane + j] = scale;
    }
  }
#pragma unroll
  for (int g = 0; g < kGroupsOfWarp; ++g) {
    std::uint32_t codes[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      codes[i] = codes_by_column(held.rows[g * kGroup + i], inverse);
    }
    turn_group(words, lane, g * kWarps + warp, codes);
  }
  __syncthreads();
  write_turned(words,
               cast.turned + static_cast<std::int64_t>(blockIdx.x) * kTile * cast.rows +
                   static_cast<std::int64_t>(blockIdx.y) * kTile,
               cast.rows, kTile, kTile);
}

template <bool kRows, bool kColumns>
__global__ void __launch_bounds__(kThreads) cast_lines_kernel(BlockCast cast) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Held held(cast, warp, lane);
  if constexpr (kRows) {
    cast_rows(cast, held, warp, lane);
  }
  if constexpr (kColumns) {
    __shared__ TurnedWords words;
    __shared__ Most most;
    cast_columns(cast, held, most, words, warp, lane);
  }
}

}  // namespace

void block_cast(cudaStream_t stream, const BlockCast& cast) {
  const dim3 grid(static_cast<unsigned>(cast.columns / kTile),
                  static_cast<unsigned>(cast.rows / kTile));
  if (cast.square) {
    cast_squares_kernel<<<grid, kThreads, 0, stream>>>(cast);
  } else if (cast.turned == nullptr) {
    cast_lines_kernel<true, false><<<grid, kThreads, 0, stream>>>(cast);
  } else if (cast.codes == nullptr) {
    cast_lines_kernel<false, true><<<grid, kThreads, 0, stream>>>(cast);
  } else {
    cast_lines_kernel<true, true><<<grid, kThreads, 0, stream>>>(cast);
  }
}

}  // namespace trireme::runtime::cuda
