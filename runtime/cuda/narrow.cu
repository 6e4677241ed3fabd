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

// `scale` begins at zero. Magnitudes compare as their bits do, NaN last.
__global__ void scale_kernel(const Bf16* x, std::uint32_t* scale, std::int64_t vectors,
                             int largest) {
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

// A warp takes four rows of the tile at once, a lane four neighbours of each. In shared memory a
// column's words are turned by the lane that wrote them, so that neither writing nor reading meets
// in a bank.
template <__nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads) cast_kernel(NarrowCast cast) {
  __shared__ std::uint32_t words[kTile * kTile / kGroup];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const std::int64_t column = first_column + kGroup * lane;
  const float inverse = 1.0F / *cast.scale;
#pragma unroll
  for (int step = 0; step < kTile / kGroup / kWarps; ++step) {
    const int group = step * kWarps + warp;
    const std::int64_t row = first_row + kGroup * group;
    std::uint32_t codes[kGroup] = {};
    if (row < cast.rows && column < cast.columns) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const std::int64_t at = (row + i) * cast.columns + column;
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
    const std::int64_t row = first_row + kGroup * group;
    if (row < cast.rows && first_column + mine < cast.columns) {
      *reinterpret_cast<uint4*>(cast.turned + (first_column + mine) * cast.rows + row) = codes;
    }
  }
}

// Rows alone: sixteen neighbours a thread.
template <__nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads)
    cast_rows_kernel(const Bf16* x, const float* scale, std::uint8_t* codes, std::int64_t vectors) {
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
        cast.x, cast.scale, cast.codes, vectors);
    return;
  }
  const dim3 grid(blocks_of(cast.columns, kTile), blocks_of(cast.rows, kTile));
  cast_kernel<kFormat><<<grid, kThreads, 0, stream>>>(cast);
}

}  // namespace

void narrow_scale(cudaStream_t stream, const Bf16* x, float* scale, std::int64_t count,
                  NumberFormat format) {
  constexpr unsigned kMostBlocks = 1024;
  check(cudaMemsetAsync(scale, 0, sizeof(float), stream), "narrow_scale");
  const std::int64_t vectors = count / kVector;
  const unsigned blocks = min(kMostBlocks, blocks_of(vectors, 4 * kThreads));
  scale_kernel<<<blocks, kThreads, 0, stream>>>(
      x, reinterpret_cast<std::uint32_t*>(scale), vectors,
      format == NumberFormat::kE4m3 ? kLargestE4m3 : kLargestE5m2);
}

void narrow_cast(cudaStream_t stream, const NarrowCast& cast) {
  if (cast.format == NumberFormat::kE4m3) {
    launch_cast<__NV_E4M3>(stream, cast);
  } else {
    launch_cast<__NV_E5M2>(stream, cast);
  }
}

}  // namespace trireme::runtime::cuda
