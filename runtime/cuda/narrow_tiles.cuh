// What kernels that cast tiles of 128 x 128 to 8 bits share: scales, codes, and the way through
// shared memory by which a tile is transposed.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "runtime/cuda/device_math.cuh"

namespace trireme::runtime::cuda {

constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

// Exponents of the largest numbers, 448 and 57344: both are 1.75 times a power of two.
constexpr int kLargestE4m3 = 8, kLargestE5m2 = 15;
constexpr std::uint32_t kThreeQuarters = 0x600000U;  // the mantissa of 1.75
constexpr int kMantissa = 23, kBias = 127, kLeastScale = -64;
constexpr std::uint32_t kMagnitudes = 0x7fff7fffU;  // of two bf16
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

// Words of a tile's transpose. A column's are turned by the lane that wrote them, so that neither
// writing nor reading meets in a bank.
using TurnedWords = std::uint32_t[kTile * kTile / kGroup];

// Codes of four rows, the `group`th of the tile, and of four neighbours, the `lane`th.
__device__ inline void turn_group(TurnedWords& words, int lane, int group,
                                  const std::uint32_t (&codes)[kGroup]) {
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

// Of a whole block, once all words are there. Eight lanes write the 128 codes of a column; a warp's
// four columns were written by neighbours. `to`: of the tile's first code; a row of the transpose
// has `width`, of which the tile has `rows`, and `columns` rows are there.
__device__ inline void write_turned(const TurnedWords& words, std::uint8_t* to, std::int64_t width,
                                    int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
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
    if (kGroup * group < rows && mine < columns) {
      *reinterpret_cast<uint4*>(to + mine * width + kGroup * group) = codes;
    }
  }
}

}  // namespace trireme::runtime::cuda
