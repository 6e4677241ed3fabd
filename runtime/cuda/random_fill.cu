#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/random_fill.h"

namespace trireme::runtime::cuda {
namespace {

// core/random.h's numbers, on the device; cuda_fill_test.cc holds them to it.
__device__ inline std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

__device__ inline double uniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(mixed(key + kGolden * (index + 1)) >> 11U) * 0x1.0p-53;
}

// What the cast of an fp32 master gives. Rounded once, a weight in 2^17 would differ from that: a
// layout that keeps masters alone began with other weights than one that keeps both.
__device__ inline void store(Bf16* target, double value) {
  *target = __float2bfloat16(static_cast<float>(value));
}
__device__ inline void store(float* target, double value) {
  *target = static_cast<float>(value);
}

template <typename Element>
__global__ void normal_kernel(Element* target, std::int64_t count, NormalFill fill) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const std::int64_t flat = fill.flat_begin + i;
    const std::int64_t row = fill.row_begin + flat / fill.column_count;
    const std::int64_t column = fill.column_begin + flat % fill.column_count;
    const auto index = static_cast<std::uint64_t>(row * fill.columns + column);
    const double radius = sqrt(-2.0 * log(1.0 - uniform(fill.key, 2 * index)));
    store(target + i, fill.deviation * radius * cospi(2.0 * uniform(fill.key, 2 * index + 1)));
  }
}

template <typename Element>
__global__ void fill_kernel(Element* target, std::int64_t count, std::uint64_t seed) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const std::uint64_t bits = mixed(seed * kGolden + static_cast<std::uint64_t>(i));
    target[i] = Element(static_cast<float>(bits >> 40U) * (2.0F / 16777216.0F) - 1.0F);
  }
}

template <typename Element>
void launch_fill(cudaStream_t stream, void* target, std::int64_t count, std::uint64_t seed) {
  fill_kernel<<<1024, kThreads, 0, stream>>>(static_cast<Element*>(target), count, seed);
}

}  // namespace

void fill_random(cudaStream_t stream, void* target, NumberFormat format, std::int64_t count,
                 std::uint64_t seed) {
  switch (format) {
    case NumberFormat::kBf16:
      return launch_fill<Bf16>(stream, target, count, seed);
    case NumberFormat::kFp16:
      return launch_fill<__half>(stream, target, count, seed);
    case NumberFormat::kE4m3:
      return launch_fill<__nv_fp8_e4m3>(stream, target, count, seed);
    case NumberFormat::kE5m2:
      return launch_fill<__nv_fp8_e5m2>(stream, target, count, seed);
  }
}

void fill_normal(cudaStream_t stream, const View& view, const NormalFill& fill) {
  constexpr int kBlocks = 2048;
  if (view.type == ElementType::kCompute) {
    normal_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<Bf16*>(view.data), view.count,
                                                    fill);
  } else {
    normal_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(view.data), view.count,
                                                    fill);
  }
}

}  // namespace trireme::runtime::cuda
