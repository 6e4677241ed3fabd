// The kernels of routed experts (core/kernels.h says what each does), by the conventions of
// runtime/cuda/kernels.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace trireme::runtime::cuda {

// At most 1024 experts, in at most 32 groups. The rest as core/arithmetic.h has it.
struct Route {
  std::int64_t tokens, experts, chosen;
  bool sigmoid;
  bool normalises = true;
  float scale = 1.0F;
  int groups = 0, groups_chosen = 0;
  bool groups_by_two = true;
};
// `bias` null: none.
void route_forward(cudaStream_t stream, const Route& route, const float* logits,
                   const __nv_bfloat16* bias, float* weights, std::int32_t* experts);
void route_backward(cudaStream_t stream, const Route& route, const float* dweights,
                    const float* weights, const std::int32_t* experts, const float* logits,
                    __nv_bfloat16* dlogits);
// Fewer than 2^24 slots.
void expert_places(cudaStream_t stream, std::int64_t slots, std::int64_t experts,
                   const std::int32_t* chosen, std::int32_t* places, std::int32_t* counts);

struct ExpertRows {
  std::int64_t tokens, chosen, width;
};
void permute_rows(cudaStream_t stream, const ExpertRows& rows, const __nv_bfloat16* x,
                  const std::int32_t* places, __nv_bfloat16* y);
// `weights` null: the plain sum.
void combine_rows(cudaStream_t stream, const ExpertRows& rows, const __nv_bfloat16* y,
                  const std::int32_t* places, const float* weights, __nv_bfloat16* x);
void combine_backward(cudaStream_t stream, const ExpertRows& rows, const __nv_bfloat16* dx,
                      const __nv_bfloat16* y, const std::int32_t* places, const float* weights,
                      __nv_bfloat16* dy, float* dweights);
void regroup_rows(cudaStream_t stream, std::int64_t senders, std::int64_t experts,
                  std::int64_t width, const std::int32_t* counts, const __nv_bfloat16* x,
                  __nv_bfloat16* y, bool inverse);

}  // namespace trireme::runtime::cuda
