// Gradient norm, clipping and AdamW over flat fp32 states.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

constexpr int kNormBlocks = 1056;  // eight a multiprocessor of an H100

__device__ inline float weighted_square(const SquaredNorm& norm, std::int64_t i, float value,
                                        float weight, float replicated_weight) {
  return value * value * (norm.first + i < norm.replicated_from ? weight : replicated_weight);
}

// Four elements a load when the address allows it; the rest one by one.
__global__ void squared_norm_partial_kernel(SquaredNorm norm, float* partial,
                                            std::int64_t vectors) {
  __shared__ float shared[32];
  const auto weight = static_cast<float>(1.0 / norm.divisor);
  const auto replicated_weight = static_cast<float>(1.0 / norm.replicated_divisor);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sum = 0.0F;
  for (std::int64_t v = thread; v < vectors; v += stride) {
    const float4 g = reinterpret_cast<const float4*>(norm.gradient)[v];
    sum += weighted_square(norm, 4 * v, g.x, weight, replicated_weight) +
           weighted_square(norm, 4 * v + 1, g.y, weight, replicated_weight) +
           weighted_square(norm, 4 * v + 2, g.z, weight, replicated_weight) +
           weighted_square(norm, 4 * v + 3, g.w, weight, replicated_weight);
  }
  for (std::int64_t i = 4 * vectors + thread; i < norm.count; i += stride) {
    sum += weighted_square(norm, i, norm.gradient[i], weight, replicated_weight);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
  }
}

__global__ void squared_norm_total_kernel(const float* partial, float* sum_out) {
  __shared__ float shared[32];
  float sum = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < kNormBlocks; i += static_cast<int>(blockDim.x)) {
    sum += partial[i];
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) {
    *sum_out += sum;
  }
}

__global__ void clip_factor_kernel(const float* sum, float* norm, float* factor, float max_norm) {
  *norm = sqrtf(*sum);
  *factor = max_norm > 0.0F ? fminf(1.0F, max_norm / (*norm + 1e-6F)) : 1.0F;
}

struct AdamwStep {
  float learning_rate, beta1, beta2, epsilon, decay, correction1, correction2;
};

__device__ inline float adamw_one(float gradient, float& master, float& moment1, float& moment2,
                                  const AdamwStep& s) {
  moment1 = s.beta1 * moment1 + (1.0F - s.beta1) * gradient;
  moment2 = s.beta2 * moment2 + (1.0F - s.beta2) * gradient * gradient;
  const float update = moment1 * s.correction1 / (sqrtf(moment2 * s.correction2) + s.epsilon);
  master -= s.learning_rate * (update + s.decay * master);
  return master;
}

template <bool kAligned>
__global__ void adamw_kernel(Adamw update, AdamwStep step) {
  const float factor = *update.factor;
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (kAligned && i + 4 <= update.count) {
    const float4 g = *reinterpret_cast<const float4*>(update.gradient + i);
    float4 p = *reinterpret_cast<float4*>(update.master + i);
    float4 m = *reinterpret_cast<float4*>(update.moment1 + i);
    float4 v = *reinterpret_cast<float4*>(update.moment2 + i);
    adamw_one(g.x * factor, p.x, m.x, v.x, step);
    adamw_one(g.y * factor, p.y, m.y, v.y, step);
    adamw_one(g.z * factor, p.z, m.z, v.z, step);
    adamw_one(g.w * factor, p.w, m.w, v.w, step);
    *reinterpret_cast<float4*>(update.master + i) = p;
    *reinterpret_cast<float4*>(update.moment1 + i) = m;
    *reinterpret_cast<float4*>(update.moment2 + i) = v;
    if (update.weight != nullptr) {
      auto* target = reinterpret_cast<__nv_bfloat162*>(update.weight + i);
      target[0] = __floats2bfloat162_rn(p.x, p.y);
      target[1] = __floats2bfloat162_rn(p.z, p.w);
    }
    return;
  }
  for (std::int64_t j = i; j < i + 4 && j < update.count; ++j) {
    const float p = adamw_one(update.gradient[j] * factor, update.master[j], update.moment1[j],
                              update.moment2[j], step);
    if (update.weight != nullptr) {
      update.weight[j] = __float2bfloat16(p);
    }
  }
}

bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

}  // namespace

void squared_norm(cudaStream_t stream, const SquaredNorm& norm, Scratch scratch) {
  const std::int64_t vectors = aligned(norm.gradient) ? norm.count / 4 : 0;
  squared_norm_partial_kernel<<<kNormBlocks, kThreads, 0, stream>>>(norm, scratch.data, vectors);
  squared_norm_total_kernel<<<1, kThreads, 0, stream>>>(scratch.data, norm.sum);
}

void clip_factor(cudaStream_t stream, const float* sum, float* norm, float* factor,
                 double max_norm) {
  clip_factor_kernel<<<1, 1, 0, stream>>>(sum, norm, factor, static_cast<float>(max_norm));
}

void adamw(cudaStream_t stream, const Adamw& update) {
  const auto step = static_cast<double>(update.step);
  const AdamwStep constants{static_cast<float>(update.learning_rate),
                            static_cast<float>(update.beta1),
                            static_cast<float>(update.beta2),
                            static_cast<float>(update.epsilon),
                            static_cast<float>(update.weight_decay),
                            static_cast<float>(1.0 / (1.0 - __builtin_pow(update.beta1, step))),
                            static_cast<float>(1.0 / (1.0 - __builtin_pow(update.beta2, step)))};
  const unsigned int blocks = blocks_for(update.count, kThreads * 4);
  if (aligned(update.gradient) && aligned(update.master) && aligned(update.moment1) &&
      aligned(update.moment2) && aligned(update.weight)) {
    adamw_kernel<true><<<blocks, kThreads, 0, stream>>>(update, constants);
  } else {
    adamw_kernel<false><<<blocks, kThreads, 0, stream>>>(update, constants);
  }
}

}  // namespace trireme::runtime::cuda
