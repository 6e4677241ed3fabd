// The attention path through matrix products and a softmax, for shapes that the fused library
// refuses.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

__device__ inline bool visible(std::int64_t query, std::int64_t key, std::int64_t window) {
  return key <= query && (window == 0 || query - key < window);
}

// What scores are scaled by, and capped to.
struct Scores {
  std::int64_t window;
  float scale, cap;
};

__device__ inline float score_of(const Scores& s, Bf16 product) {
  const float score = __bfloat162float(product) * s.scale;
  return s.cap > 0.0F ? s.cap * tanhf(score / s.cap) : score;
}

// One block a row of the scores.
__global__ void causal_softmax_kernel(Bf16* scores, float* lse, std::int64_t sequence,
                                      Scores numbers) {
  __shared__ float shared[32];
  const std::int64_t row = blockIdx.x;
  const std::int64_t query = row % sequence;
  Bf16* values = scores + row * sequence;
  float maximum = -INFINITY;
  for (std::int64_t j = threadIdx.x; j <= query; j += blockDim.x) {
    if (visible(query, j, numbers.window)) {
      maximum = fmaxf(maximum, score_of(numbers, values[j]));
    }
  }
  maximum = block_max(maximum, shared);
  float sum = 0.0F;
  for (std::int64_t j = threadIdx.x; j <= query; j += blockDim.x) {
    if (visible(query, j, numbers.window)) {
      sum += __expf(score_of(numbers, values[j]) - maximum);
    }
  }
  const float total = maximum + logf(block_sum(sum, shared));
  for (std::int64_t j = threadIdx.x; j < sequence; j += blockDim.x) {
    const bool seen = visible(query, j, numbers.window);
    values[j] = __float2bfloat16(seen ? __expf(score_of(numbers, values[j]) - total) : 0.0F);
  }
  if (threadIdx.x == 0) {
    lse[row] = total;
  }
}

__global__ void attention_delta_kernel(const Bf16* dy, const Bf16* y, float* delta,
                                       std::int64_t heads, std::int64_t head_size,
                                       std::int64_t sequence) {
  const std::int64_t row = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t head = threadIdx.x / 32; head < heads; head += blockDim.x / 32) {
    const std::int64_t at = (row * heads + head) * head_size;
    float sum = 0.0F;
    for (std::int64_t j = lane; j < head_size; j += 32) {
      sum += __bfloat162float(dy[at + j]) * __bfloat162float(y[at + j]);
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      delta[(row / sequence * heads + head) * sequence + row % sequence] = sum;
    }
  }
}

__global__ void causal_softmax_backward_kernel(Bf16* scores, Bf16* dprobabilities, const float* lse,
                                               const float* delta, std::int64_t sequence,
                                               Scores numbers) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t query = row % sequence;
  for (std::int64_t j = threadIdx.x; j < sequence; j += blockDim.x) {
    const std::int64_t at = row * sequence + j;
    const float score = score_of(numbers, scores[at]);
    const float probability = visible(query, j, numbers.window) ? __expf(score - lse[row]) : 0.0F;
    const float bent = numbers.cap > 0.0F ? score / numbers.cap : 0.0F;
    const float dscore = probability * (__bfloat162float(dprobabilities[at]) - delta[row]) *
                         numbers.scale * (1.0F - bent * bent);
    scores[at] = __float2bfloat16(probability);
    dprobabilities[at] = __float2bfloat16(dscore);
  }
}

Scores numbers_of(const ScoreNumbers& numbers) {
  return {numbers.window, static_cast<float>(numbers.scale), static_cast<float>(numbers.cap)};
}

}  // namespace

void causal_softmax(cudaStream_t stream, Bf16* scores, float* lse, std::int64_t count,
                    std::int64_t sequence, const ScoreNumbers& numbers) {
  causal_softmax_kernel<<<static_cast<unsigned int>(count * sequence), kThreads, 0, stream>>>(
      scores, lse, sequence, numbers_of(numbers));
}

void attention_delta(cudaStream_t stream, const Bf16* dy, const Bf16* y, float* delta,
                     std::int64_t rows, std::int64_t heads, std::int64_t head_size,
                     std::int64_t sequence) {
  attention_delta_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream>>>(
      dy, y, delta, heads, head_size, sequence);
}

void causal_softmax_backward(cudaStream_t stream, Bf16* scores, Bf16* dprobabilities,
                             const float* lse, const float* delta, std::int64_t count,
                             std::int64_t sequence, const ScoreNumbers& numbers) {
  causal_softmax_backward_kernel<<<static_cast<unsigned int>(count * sequence), kThreads, 0,
                                   stream>>>(scores, dprobabilities, lse, delta, sequence,
                                             numbers_of(numbers));
}

}  // namespace trireme::runtime::cuda
