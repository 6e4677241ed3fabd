// Attention of one context rank's queries over all keys, of which each of its two chunks sees those
// before and its own: a rectangle without a mask and a causal square, each by cuDNN's fused kernel,
// merged by their statistics. And over the keys of one member of the ring at a time
// (ring_attention.cc): a causal square, or a rectangle of half of the queries or half of the keys.
#pragma once

#include <cuda_bf16.h>
#include <cudnn.h>

#include <map>
#include <memory>

#include "runtime/cuda/attention_graph.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/ring_shape.h"

namespace trireme::runtime::cuda {

struct ContextCall {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t ranks = 1, place = 0;
  double scale = 1;  // of the scores
};

// One a device; plans and scratch as AttentionLibrary's.
class ContextAttention {
 public:
  explicit ContextAttention(cudnnHandle_t handle) : handle_(handle) {}

  // As the rows of core/kernels.h. Throws Error where cuDNN has no plan.
  void forward(const ContextCall& call, const __nv_bfloat16* qkv, const __nv_bfloat16* kv,
               __nv_bfloat16* y, float* lse, cudaStream_t stream);
  void backward(const ContextCall& call, const __nv_bfloat16* dy, const __nv_bfloat16* qkv,
                const __nv_bfloat16* kv, const __nv_bfloat16* y, const float* lse,
                __nv_bfloat16* dqkv, __nv_bfloat16* dkv, cudaStream_t stream);
  void ring_forward(const RingShape& call, const __nv_bfloat16* qkv, const __nv_bfloat16* kv,
                    __nv_bfloat16* y, float* lse, cudaStream_t stream);
  void ring_backward(const RingShape& call, const __nv_bfloat16* dy, const __nv_bfloat16* qkv,
                     const __nv_bfloat16* kv, const __nv_bfloat16* y, const float* lse,
                     __nv_bfloat16* dqkv, __nv_bfloat16* dkv, cudaStream_t stream);
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_.bytes(); }

 private:
  struct Plans {
    AttentionForwardGraph forward;
    AttentionBackwardGraph backward;
  };
  struct Piece;
  const Plans& plans_for(const AttentionPiece& piece);
  std::byte* scratch(std::size_t bytes);
  void piece_forward(const ContextCall& call, const Piece& piece, const __nv_bfloat16* qkv,
                     const __nv_bfloat16* kv, __nv_bfloat16* y, float* lse, std::byte* workspace,
                     cudaStream_t stream);
  void piece_backward(const ContextCall& call, const Piece& piece, const __nv_bfloat16* dy,
                      const __nv_bfloat16* qkv, const __nv_bfloat16* kv, const __nv_bfloat16* y,
                      const float* lse, __nv_bfloat16* dqkv, __nv_bfloat16* dkv,
                      cudaStream_t stream);

  cudnnHandle_t handle_;
  std::map<AttentionPiece, std::shared_ptr<Plans>> plans_;
  DeviceBytes scratch_;
};

}  // namespace trireme::runtime::cuda
