// Sums that a warp group's products leave in its registers (hopper.cuh), to the rows of a result:
// each thread has of two rows pairs of columns, eight columns apart.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace trireme::runtime::cuda::hopper {

__device__ inline std::uint32_t packed(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

__device__ inline std::uint32_t sum(std::uint32_t a, std::uint32_t b) {
  const float2 first = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&a));
  const float2 second = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&b));
  return packed(first.x + second.x, first.y + second.y);
}

// Of four neighbouring lanes the i-th gets the i-th value of each.
__device__ inline void transpose_quad(std::uint32_t (&v)[4], int lane) {
  const auto exchange = [lane](std::uint32_t& first, std::uint32_t& second, int step) {
    const bool upper = (lane & step) != 0;
    const std::uint32_t got = __shfl_xor_sync(~0U, upper ? first : second, step);
    first = upper ? got : first;
    second = upper ? second : got;
  };
  exchange(v[0], v[1], 1);
  exchange(v[2], v[3], 1);
  exchange(v[0], v[2], 2);
  exchange(v[1], v[3], 2);
}

__device__ inline void add(float* target, float4 value) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(target),
               "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

// One row's 256 columns, by four neighbouring lanes. Sums are added where the memory is, which no
// thread waits for. Every lane takes part, also one whose row is not there.
template <int kHalf>
__device__ void put_row(const float (&d)[128], float* row, int columns, bool adds, int lane) {
  const bool odd = (lane & 1) != 0;
#pragma unroll
  for (int block = 0; block < 32; block += 2) {  // the even lanes' eight columns, and the odd ones'
    const float2 first{d[block * 4 + 2 * kHalf], d[block * 4 + 2 * kHalf + 1]};
    const float2 second{d[block * 4 + 4 + 2 * kHalf], d[block * 4 + 4 + 2 * kHalf + 1]};
    const float2 sent = odd ? first : second;
    const float2 got{__shfl_xor_sync(~0U, sent.x, 1), __shfl_xor_sync(~0U, sent.y, 1)};
    const float4 value =
        odd ? float4{got.x, got.y, second.x, second.y} : float4{first.x, first.y, got.x, got.y};
    const int column = (block + lane % 2) * 8 + (lane & 2) * 2;
    if (column < columns) {
      if (adds) {
        add(row + column, value);
      } else {
        *reinterpret_cast<float4*>(row + column) = value;
      }
    }
  }
}

template <int kHalf>
__device__ void put_row(const float (&d)[128], __nv_bfloat16* row, int columns, bool adds,
                        int lane) {
#pragma unroll
  for (int block = 0; block < 32; block += 4) {
    std::uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] = packed(d[(block + i) * 4 + 2 * kHalf], d[(block + i) * 4 + 2 * kHalf + 1]);
    }
    transpose_quad(v, lane);
    const int column = (block + lane % 4) * 8;
    if (column < columns) {
      auto* target = reinterpret_cast<uint4*>(row + column);
      if (adds) {
        const uint4 old = *target;
        *target = {sum(old.x, v[0]), sum(old.y, v[1]), sum(old.z, v[2]), sum(old.w, v[3])};
      } else {
        *target = {v[0], v[1], v[2], v[3]};
      }
    }
  }
}

}  // namespace trireme::runtime::cuda::hopper
