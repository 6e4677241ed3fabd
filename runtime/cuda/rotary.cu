// Rotary position embedding in place on [q heads | k heads | v heads] rows, Hugging Face's halves
// convention.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

// Turns kWide neighbours of a head's low half against those of its high half.
template <int kWide>
__device__ void turn(Bf16* low, Bf16* high, const float2* turns) {
  for (int k = 0; k < kWide; ++k) {
    const float a = __bfloat162float(low[k]);
    const float b = __bfloat162float(high[k]);
    low[k] = __float2bfloat16_rn(a * turns[k].x - b * turns[k].y);
    high[k] = __float2bfloat16_rn(b * turns[k].x + a * turns[k].y);
  }
}

template <>
__device__ void turn<2>(Bf16* low, Bf16* high, const float2* turns) {
  auto* lows = reinterpret_cast<__nv_bfloat162*>(low);
  auto* highs = reinterpret_cast<__nv_bfloat162*>(high);
  const float2 a = __bfloat1622float2(*lows);
  const float2 b = __bfloat1622float2(*highs);
  *lows = __floats2bfloat162_rn(a.x * turns[0].x - b.x * turns[0].y,
                                a.y * turns[1].x - b.y * turns[1].y);
  *highs = __floats2bfloat162_rn(b.x * turns[0].x + a.x * turns[0].y,
                                 b.y * turns[1].x + a.y * turns[1].y);
}

// One block a token: the angles are computed once in shared memory and used by every head.
template <int kWide>
__global__ void rotary_kernel(Bf16* qkv, std::int64_t rotated_heads, std::int64_t width,
                              std::int64_t half, Positions positions, float log2_base, float sign) {
  extern __shared__ float2 turns[];
  const std::int64_t row = blockIdx.x;
  const float position = static_cast<float>(position_of(positions, row));
  for (std::int64_t j = threadIdx.x; j < half; j += blockDim.x) {
    const float frequency = exp2f(-log2_base * static_cast<float>(j) / static_cast<float>(half));
    float sine = 0.0F;
    float cosine = 0.0F;
    sincosf(position * frequency, &sine, &cosine);
    turns[j] = make_float2(cosine, sign * sine);
  }
  __syncthreads();
  Bf16* token = qkv + row * width;
  for (std::int64_t i = threadIdx.x; i < rotated_heads * half / kWide; i += blockDim.x) {
    const std::int64_t j = kWide * (i % (half / kWide));
    Bf16* low = token + i / (half / kWide) * 2 * half + j;
    turn<kWide>(low, low + half, turns + j);
  }
}

}  // namespace

void rotary(cudaStream_t stream, Bf16* qkv, std::int64_t rows, std::int64_t heads,
            std::int64_t kv_heads, std::int64_t head_size, const Positions& positions, double base,
            bool inverse) {
  const std::int64_t half = head_size / 2;
  // Two neighbours at a time need an even half: both for their number and for their alignment.
  auto* kernel = half % 2 == 0 ? rotary_kernel<2> : rotary_kernel<1>;
  kernel<<<static_cast<unsigned int>(rows), kThreads,
           static_cast<std::size_t>(half) * sizeof(float2), stream>>>(
      qkv, heads + kv_heads, (heads + 2 * kv_heads) * head_size, half, positions,
      static_cast<float>(__builtin_log2(base)), inverse ? -1.0F : 1.0F);
}

}  // namespace trireme::runtime::cuda
