// Rotary position embedding in place on [q heads | k heads | v heads] rows, Hugging Face's halves
// convention.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

// One block a token: the angles are computed once in shared memory and used by every head.
__global__ void rotary_kernel(Bf16* qkv, std::int64_t rotated_heads, std::int64_t width,
                              std::int64_t half, std::int64_t sequence, float log2_base,
                              float sign) {
  extern __shared__ float2 turns[];
  const std::int64_t row = blockIdx.x;
  const float position = static_cast<float>(row % sequence);
  for (std::int64_t j = threadIdx.x; j < half; j += blockDim.x) {
    const float frequency = exp2f(-log2_base * static_cast<float>(j) / static_cast<float>(half));
    float sine = 0.0F;
    float cosine = 0.0F;
    sincosf(position * frequency, &sine, &cosine);
    turns[j] = make_float2(cosine, sign * sine);
  }
  __syncthreads();
  Bf16* token = qkv + row * width;
  // Two neighbours of a half at a time.
  for (std::int64_t i = threadIdx.x; i < rotated_heads * half / 2; i += blockDim.x) {
    const std::int64_t j = 2 * (i % (half / 2));
    Bf16* head = token + i / (half / 2) * 2 * half;
    auto* low = reinterpret_cast<__nv_bfloat162*>(head + j);
    auto* high = reinterpret_cast<__nv_bfloat162*>(head + j + half);
    const float2 a = __bfloat1622float2(*low);
    const float2 b = __bfloat1622float2(*high);
    const float2 first = turns[j];
    const float2 second = turns[j + 1];
    *low = __floats2bfloat162_rn(a.x * first.x - b.x * first.y, a.y * second.x - b.y * second.y);
    *high = __floats2bfloat162_rn(b.x * first.x + a.x * first.y, b.y * second.x + a.y * second.y);
  }
}

}  // namespace

void rotary(cudaStream_t stream, Bf16* qkv, std::int64_t rows, std::int64_t heads,
            std::int64_t kv_heads, std::int64_t head_size, std::int64_t sequence, double base,
            bool inverse) {
  const std::int64_t half = head_size / 2;
  rotary_kernel<<<static_cast<unsigned int>(rows), kThreads,
                  static_cast<std::size_t>(half) * sizeof(float2), stream>>>(
      qkv, heads + kv_heads, (heads + 2 * kv_heads) * head_size, half, sequence,
      static_cast<float>(__builtin_log2(base)), inverse ? -1.0F : 1.0F);
}

}  // namespace trireme::runtime::cuda
