#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/random_fill.h"

namespace trireme::runtime::cuda {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
__device__ inline std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

__global__ void fill_kernel(Bf16* target, std::int64_t count, std::uint64_t seed) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const std::uint64_t bits = mixed(seed * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(i));
    target[i] = __float2bfloat16(static_cast<float>(bits >> 40U) * (2.0F / 16777216.0F) - 1.0F);
  }
}

}  // namespace

void fill_random(cudaStream_t stream, __nv_bfloat16* target, std::int64_t count,
                 std::uint64_t seed) {
  fill_kernel<<<1024, kThreads, 0, stream>>>(target, count, seed);
}

}  // namespace trireme::runtime::cuda
