#include "runtime/cuda/narrow.h"

#include <cuda_fp8.h>

#include "runtime/cuda/check.h"
#include "runtime/cuda/device_math.cuh"

namespace trireme::runtime::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

// Exponents of the largest numbers, 448 and 57344: both are 1.75 times a power of two.
constexpr int kLargestE4m3 = 8, kLargestE5m2 = 15;
constexpr std::uint32_t kThreeQuarters = 0x600000U;  // the mantissa of 1.75
constexpr int kMantissa = 23, kBias = 127, kLeastScale = -64;
constexpr std::uint32_t kInfinity = 0x7f800000U, kNan = 0x7fc00000U;

// Of the largest magnitude, as bits: the scale's bits, which order as the scales do, NaN last.
__device__ inline std::uint32_t scale_bits(std::uint32_t most, int largest) {
  if (most >= kInfinity) {
    return kNan;
  }
  const int above = (most & 0x7fffffU) > kThreeQuarters ? 1 : 0;
  const int exponent = static_cast<int>(most >> kMantissa) - kBias - largest + above;
  return static_cast<std::uint32_t>(max(exponent, kLeastScale) + kBias) << kMantissa;
}

// Of a whole block.
__device__ inline std::int64_t rows_that_came(const ArrivedRows& arrived) {
  __shared__ unsigned long long all;
  if (threadIdx.x == 0) {
    all = 0;
  }
  __syncthreads();
  unsigned long long mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < arrived.sources * arrived.experts;
       i += kThreads) {
    mine += static_cast<unsigned>(arrived.counts[i]);
  }
  if (mine > 0) {
    atomicAdd(&all, mine);
  }
  __syncthreads();
  return static_cast<std::int64_t>(all);
}

// `scale` begins at zero. Magnitudes compare as their bits do, NaN last. A row has `row_vectors`.
__global__ void scale_kernel(const Bf16* x, std::uint32_t* scale, std::int64_t vectors, int largest,
                             std::int64_t row_vectors, ArrivedRows arrived) {
  if (arrived.counts != nullptr) {
    vectors = rows_that_came(arrived) * row_vectors;
  }
  std::uint32_t most = 0;  // of pairs of 16 bits, each half by itself
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < vectors; i += step) {
    const uint4 packed = reinterpret_cast<const uint4*>(x)[i];
    most = __vmaxu2(most, __vmaxu2(__vmaxu2(packed.x & 0x7fff7fffU, packed.y & 0x7fff7fffU),
                                   __vmaxu2(packed.z & 0x7fff7fffU, packed.w & 0x7fff7fffU)));
  }
  most = max(most & 0xffff0000U, most << 16U);  // a bf16 is the upper half of a float
  most = __reduce_max_sync(0xffffffffU, most);
  __shared__ std::uint32_t of_warps[kWarps];
  if (threadIdx.x % kWarp == 0) {
    of_warps[threadIdx.x / kWarp] = most;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (const std::uint32_t other : of_warps) {
      most = max(most, other);
    }
    atomicMax(scale, scale_bits(most, largest));
  }
}

// Four neighbours as four codes, the first in the lowest byte.
template <__nv_fp8_interpretation_t kFormat>
__device__ inline std::uint32_t codes_of(const uint2& four, float inverse) {
  const auto two = [inverse](std::uint32_t pair) {
    const float2 values = {__uint_as_float(pair << 16U) * inverse,
                           __uint_as_float(pair & 0xffff0000U) * inverse};
    return static_cast<std::uint32_t>(__nv_cvt_float2_to_fp8x2(values, __NV_SATFINITE, kFormat));
  };
  return two(four.x) | two(four.y) << 16U;
}

constexpr int kTile = 128;  // rows and columns
constexpr int kGroup = 4;   // rows that a word of the transpose holds

// What a block casts: rows of x from `row` on, whose columns in the transpose begin at `column`,
// and go on as zeros up to `columns` of them.
struct Tile {
  std::int64_t row = 0, column = 0;
  int rows = 0, columns = 0;
};

__device__ inline Tile tile_of_matrix(std::int64_t rows) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const int here = static_cast<int>(min(static_cast<std::int64_t>(kTile), rows - first));
  return {first, first, here, here};
}

// The experts' tiles lie one behind the other, each expert's from its own first row on; the rows of
// the last may be fewer. Every warp looks for the block's, which may be none: no rows.
__device__ inline Tile tile_of_experts(const ArrivedRows& arrived) {
  constexpr unsigned kAll = 0xffffffffU;
  constexpr int kColumns = 16;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int index = static_cast<int>(blockIdx.y);
  int tiles = 0;  // of the experts before, with their rows and columns
  std::int64_t row = 0;
  std::int64_t column = 0;
  for (int first = 0; first < arrived.experts; first += kWarp) {
    const int expert = first + lane;
    int rows = 0;
    for (int source = 0; source < arrived.sources && expert < arrived.experts; ++source) {
      rows += arrived.counts[source * arrived.experts + expert];
    }
    const int columns = (rows + kColumns - 1) / kColumns * kColumns;
    const int own = (rows + kTile - 1) / kTile;
    int tiles_to = own;  // sums up to this lane
    int rows_to = rows;
    int columns_to = columns;
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const int more_tiles = __shfl_up_sync(kAll, tiles_to, offset);
      const int more_rows = __shfl_up_sync(kAll, rows_to, offset);
      const int more_columns = __shfl_up_sync(kAll, columns_to, offset);
      if (lane >= offset) {
        tiles_to += more_tiles;
        rows_to += more_rows;
        columns_to += more_columns;
      }
    }
    const int at = index - tiles - (tiles_to - own);
    const unsigned found = __ballot_sync(kAll, at >= 0 && at < own);
    if (found != 0) {
      const int who = __ffs(static_cast<int>(found)) - 1;
      const int before = __shfl_sync(kAll, at, who) * kTile;
      return {row + __shfl_sync(kAll, rows_to - rows, who) + before,
              column + __shfl_sync(kAll, columns_to - columns, who) + before,
              min(kTile, __shfl_sync(kAll, rows, who) - before),
              min(kTile, __shfl_sync(kAll, columns, who) - before)};
    }
    tiles += __shfl_sync(kAll, tiles_to, kWarp - 1);
    row += __shfl_sync(kAll, rows_to, kWarp - 1);
    column += __shfl_sync(kAll, columns_to, kWarp - 1);
  }
  return {};
}

// A warp takes four rows of the tile at once, a lane four neighbours of each. In shared memory a
// column's words are turned by the lane that wrote them, so that neither writing nor reading meets
// in a bank.
template <__nv_fp8_interpretation_t kFormat, bool kExperts>
__global__ void __launch_bounds__(kThreads) cast_kernel(NarrowCast cast) {
  const Tile tile = kExperts ? tile_of_experts(cast.arrived) : tile_of_matrix(cast.rows);
  if (tile.rows == 0) {  // of the whole block
    return;
  }
  __shared__ std::uint32_t words[kTile * kTile / kGroup];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const std::int64_t column = first_column + kGroup * lane;
  const float inverse = 1.0F / *cast.scale;
#pragma unroll
  for (int step = 0; step < kTile / kGroup / kWarps; ++step) {
    const int group = step * kWarps + warp;
    std::uint32_t codes[kGroup] = {};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (kGroup * group + i < tile.rows && column < cast.columns) {
        const std::int64_t at = (tile.row + kGroup * group + i) * cast.columns + column;
        codes[i] = codes_of<kFormat>(*reinterpret_cast<const uint2*>(cast.x + at), inverse);
        if (cast.codes != nullptr) {
          *reinterpret_cast<std::uint32_t*>(cast.codes + at) = codes[i];
        }
      }
    }
    // Byte j of four words to word j of four bytes.
    const std::uint32_t low01 = __byte_perm(codes[0], codes[1], 0x5140);
    const std::uint32_t low23 = __byte_perm(codes[2], codes[3], 0x5140);
    const std::uint32_t high01 = __byte_perm(codes[0], codes[1], 0x7362);
    const std::uint32_t high23 = __byte_perm(codes[2], codes[3], 0x7362);
    const std::uint32_t turned[kGroup] = {
        __byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
        __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      words[(kGroup * lane + j) * kWarp + (group + lane) % kWarp] = turned[j];
    }
  }
  if (cast.turned == nullptr) {
    return;
  }
  __syncthreads();
  // Eight lanes write the 128 codes of a column; a warp's four columns were written by neighbours.
  constexpr int kLanes = kTile / 16;
#pragma unroll
  for (int step = 0; step < kTile / kWarps / (kWarp / kLanes); ++step) {
    const int at = step * kWarps + warp;  // of 32 sets of four columns
    const int writer = at / kGroup * kGroup + lane / kLanes;
    const int mine = kGroup * writer + at % kGroup;
    const int group = lane % kLanes * kGroup;
    const std::uint32_t* of_column = words + mine * kWarp;
    uint4 codes;
    codes.x = of_column[(group + writer) % kWarp];
    codes.y = of_column[(group + 1 + writer) % kWarp];
    codes.z = of_column[(group + 2 + writer) % kWarp];
    codes.w = of_column[(group + 3 + writer) % kWarp];
    if (kGroup * group < tile.columns && first_column + mine < cast.columns) {
      *reinterpret_cast<uint4*>(cast.turned + (first_column + mine) * cast.turned_width +
                                tile.column + kGroup * group) = codes;
    }
  }
}

// Rows alone: sixteen neighbours a thread. A row has `row_vectors` of them.
template <__nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads)
    cast_rows_kernel(const Bf16* x, const float* scale, std::uint8_t* codes, std::int64_t vectors,
                     std::int64_t row_vectors, ArrivedRows arrived) {
  if (arrived.counts != nullptr) {
    vectors = rows_that_came(arrived) * row_vectors;
  }
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= vectors) {
    return;
  }
  const float inverse = 1.0F / *scale;
  const uint4 low = reinterpret_cast<const uint4*>(x)[2 * i];
  const uint4 high = reinterpret_cast<const uint4*>(x)[2 * i + 1];
  reinterpret_cast<uint4*>(codes)[i] = {
      codes_of<kFormat>({low.x, low.y}, inverse), codes_of<kFormat>({low.z, low.w}, inverse),
      codes_of<kFormat>({high.x, high.y}, inverse), codes_of<kFormat>({high.z, high.w}, inverse)};
}

unsigned blocks_of(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

template <__nv_fp8_interpretation_t kFormat>
void launch_cast(cudaStream_t stream, const NarrowCast& cast) {
  if (cast.turned == nullptr) {
    const std::int64_t vectors = cast.rows * cast.columns / 16;
    cast_rows_kernel<kFormat><<<blocks_of(vectors, kThreads), kThreads, 0, stream>>>(
        cast.x, cast.scale, cast.codes, vectors, cast.columns / 16, cast.arrived);
    return;
  }
  // Of experts each may have a tile that is not full.
  const dim3 grid(blocks_of(cast.columns, kTile),
                  blocks_of(cast.rows, kTile) + static_cast<unsigned>(cast.arrived.experts));
  if (cast.arrived.counts != nullptr) {
    cast_kernel<kFormat, true><<<grid, kThreads, 0, stream>>>(cast);
  } else {
    cast_kernel<kFormat, false><<<grid, kThreads, 0, stream>>>(cast);
  }
}

}  // namespace

void narrow_scale(cudaStream_t stream, const Bf16* x, float* scale, std::int64_t count,
                  NumberFormat format, std::int64_t width, const ArrivedRows& arrived) {
  constexpr unsigned kMostBlocks = 1024;
  check(cudaMemsetAsync(scale, 0, sizeof(float), stream), "narrow_scale");
  const std::int64_t vectors = count / kVector;
  const unsigned blocks = min(kMostBlocks, blocks_of(vectors, 4 * kThreads));
  scale_kernel<<<blocks, kThreads, 0, stream>>>(
      x, reinterpret_cast<std::uint32_t*>(scale), vectors,
      format == NumberFormat::kE4m3 ? kLargestE4m3 : kLargestE5m2, width / kVector, arrived);
}

void narrow_cast(cudaStream_t stream, const NarrowCast& cast) {
  if (cast.format == NumberFormat::kE4m3) {
    launch_cast<__NV_E4M3>(stream, cast);
  } else {
    launch_cast<__NV_E5M2>(stream, cast);
  }
}

}  // namespace trireme::runtime::cuda
