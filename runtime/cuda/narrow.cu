#include "runtime/cuda/narrow.h"

#include "runtime/cuda/check.h"
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/narrow_tiles.cuh"

namespace trireme::runtime::cuda {
namespace {

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

// Of eight bf16: the largest magnitude of each half.
__device__ inline std::uint32_t most_of(const uint4& packed) {
  return __vmaxu2(__vmaxu2(packed.x & kMagnitudes, packed.y & kMagnitudes),
                  __vmaxu2(packed.z & kMagnitudes, packed.w & kMagnitudes));
}

// Of a whole block, whose threads' `most` are pairs of 16 bits; true of its first thread, which has
// the largest of all, as a float's bits.
__device__ inline bool most_of_block(std::uint32_t& most) {
  most = max(most & 0xffff0000U, most << 16U);  // a bf16 is the upper half of a float
  most = __reduce_max_sync(0xffffffffU, most);
  __shared__ std::uint32_t of_warps[kWarps];
  if (threadIdx.x % kWarp == 0) {
    of_warps[threadIdx.x / kWarp] = most;
  }
  __syncthreads();
  if (threadIdx.x != 0) {
    return false;
  }
  for (const std::uint32_t other : of_warps) {
    most = max(most, other);
  }
  return true;
}

// With delayed scaling. Few blocks have more than those before them.
__device__ inline void note_largest(float* largest, std::uint32_t most) {
  if (!most_of_block(most)) {
    return;
  }
  auto* noted = reinterpret_cast<std::uint32_t*>(largest);
  most = min(most, kInfinity);
  if (most > *static_cast<volatile std::uint32_t*>(noted)) {
    atomicMax(noted, most);
  }
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
    most = __vmaxu2(most, most_of(reinterpret_cast<const uint4*>(x)[i]));
  }
  if (most_of_block(most)) {
    atomicMax(scale, scale_bits(most, largest));
  }
}

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

// A warp takes four rows of the tile at once, a lane four neighbours of each.
template <__nv_fp8_interpretation_t kFormat, bool kExperts>
__global__ void __launch_bounds__(kThreads) cast_kernel(NarrowCast cast) {
  const Tile tile = kExperts ? tile_of_experts(cast.arrived) : tile_of_matrix(cast.rows);
  if (tile.rows == 0) {  // of the whole block
    return;
  }
  __shared__ TurnedWords words;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const std::int64_t column = first_column + kGroup * lane;
  const float inverse = 1.0F / *cast.scale;
  std::uint32_t most = 0;
#pragma unroll
  for (int step = 0; step < kTile / kGroup / kWarps; ++step) {
    const int group = step * kWarps + warp;
    std::uint32_t codes[kGroup] = {};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (kGroup * group + i < tile.rows && column < cast.columns) {
        const std::int64_t at = (tile.row + kGroup * group + i) * cast.columns + column;
        const uint2 four = *reinterpret_cast<const uint2*>(cast.x + at);
        most = __vmaxu2(most, __vmaxu2(four.x & kMagnitudes, four.y & kMagnitudes));
        codes[i] = codes_of<kFormat>(four, inverse);
        if (cast.codes != nullptr) {
          *reinterpret_cast<std::uint32_t*>(cast.codes + at) = codes[i];
        }
      }
    }
    turn_group(words, lane, group, codes);
  }
  if (cast.largest != nullptr) {
    note_largest(cast.largest, most);
  }
  __syncthreads();
  write_turned(words, cast.turned + first_column * cast.turned_width + tile.column,
               cast.turned_width, tile.columns, static_cast<int>(cast.columns - first_column));
}

// Rows alone: sixteen neighbours a thread. A row has `row_vectors` of them.
template <__nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads)
    cast_rows_kernel(const Bf16* x, const float* scale, std::uint8_t* codes, std::int64_t vectors,
                     std::int64_t row_vectors, ArrivedRows arrived, float* largest) {
  if (arrived.counts != nullptr) {
    vectors = rows_that_came(arrived) * row_vectors;
  }
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  std::uint32_t most = 0;
  if (i < vectors) {
    const float inverse = 1.0F / *scale;
    const uint4 low = reinterpret_cast<const uint4*>(x)[2 * i];
    const uint4 high = reinterpret_cast<const uint4*>(x)[2 * i + 1];
    most = __vmaxu2(most_of(low), most_of(high));
    reinterpret_cast<uint4*>(codes)[i] = {
        codes_of<kFormat>({low.x, low.y}, inverse), codes_of<kFormat>({low.z, low.w}, inverse),
        codes_of<kFormat>({high.x, high.y}, inverse), codes_of<kFormat>({high.z, high.w}, inverse)};
  }
  if (largest != nullptr) {
    note_largest(largest, most);
  }
}

// A warp has one tensor: it looks at 32 steps at a time, from the oldest on, and moves them down.
__global__ void delayed_scales_kernel(float* history, float* scales, int tensors, int steps,
                                      int first_gradient) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int tensor = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (tensor >= tensors) {
    return;
  }
  float most = 0;
  for (int first = (steps - 1) / kWarp * kWarp; first >= 0; first -= kWarp) {
    const int step = first + lane;
    const std::int64_t at = static_cast<std::int64_t>(step) * tensors + tensor;
    const float here = step < steps ? history[at] : 0.0F;
    __syncwarp();
    if (step + 1 < steps) {
      history[at + tensors] = here;
    }
    most = fmaxf(most, here);
  }
  const std::uint32_t bits = __reduce_max_sync(0xffffffffU, __float_as_uint(most));
  if (lane == 0) {
    history[tensor] = 0;
    const float of_format = tensor < first_gradient ? 448.0F : 57344.0F;
    const bool known = bits > 0 && bits < kInfinity;
    reinterpret_cast<float4*>(scales)[tensor] = {
        known ? __fdiv_rn(__uint_as_float(bits), of_format) : 1.0F, 0, 0, 0};
  }
}

unsigned blocks_of(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

template <__nv_fp8_interpretation_t kFormat>
void launch_cast(cudaStream_t stream, const NarrowCast& cast) {
  if (cast.turned == nullptr) {
    const std::int64_t vectors = cast.rows * cast.columns / 16;
    cast_rows_kernel<kFormat><<<blocks_of(vectors, kThreads), kThreads, 0, stream>>>(
        cast.x, cast.scale, cast.codes, vectors, cast.columns / 16, cast.arrived, cast.largest);
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

void delayed_scales(cudaStream_t stream, float* history, float* scales, int tensors, int steps,
                    int first_gradient) {
  delayed_scales_kernel<<<blocks_of(tensors, kWarps), kThreads, 0, stream>>>(
      history, scales, tensors, steps, first_gradient);
}

}  // namespace trireme::runtime::cuda
