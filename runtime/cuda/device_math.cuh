// What the kernels share: eight bf16 at a time, and sums over a block in a fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kVector = 8;  // bf16 elements of one 16-byte access

struct alignas(16) Bf16x8 {
  __nv_bfloat162 pairs[4];
};

__device__ inline void load8(const Bf16* source, float (&values)[kVector]) {
  const Bf16x8 packed = *reinterpret_cast<const Bf16x8*>(source);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __bfloat1622float2(packed.pairs[i]);
    values[2 * i] = pair.x;
    values[2 * i + 1] = pair.y;
  }
}

__device__ inline void store8(Bf16* target, const float (&values)[kVector]) {
  Bf16x8 packed;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    packed.pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
  }
  *reinterpret_cast<Bf16x8*>(target) = packed;
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

// Every thread gets the sum over the block. `shared` holds 32 floats; a block may call it again at
// once.
__device__ inline float block_sum(float value, float* shared) {
  value = warp_sum(value);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = (static_cast<int>(blockDim.x) + 31) / 32;
  __syncthreads();
  if (lane == 0) {
    shared[warp] = value;
  }
  __syncthreads();
  return warp_sum(lane < warps ? shared[lane] : 0.0F);
}

__device__ inline float block_max(float value, float* shared) {
  value = warp_max(value);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = (static_cast<int>(blockDim.x) + 31) / 32;
  __syncthreads();
  if (lane == 0) {
    shared[warp] = value;
  }
  __syncthreads();
  return warp_max(lane < warps ? shared[lane] : -INFINITY);
}

__device__ inline std::int64_t position_of(const Positions& at, std::int64_t token) {
  const std::int64_t i = token % at.own;
  return i < at.chunk ? at.low + i : at.high + i - at.chunk;
}

inline unsigned int blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned int>((items + per_block - 1) / per_block);
}

}  // namespace trireme::runtime::cuda
