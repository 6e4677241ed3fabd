// Causal attention on token-major [q heads | k heads | v heads] rows, forward and backward: cuDNN's
// fused kernels, and matrix products with a softmax between them where cuDNN has no plan for the
// shape.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/cuda/matmul.h"

namespace trireme::runtime::cuda {

class ContextAttention;

struct AttentionCall {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t window = 0;      // 0 = all earlier keys
  std::int64_t value_size = 0;  // of a value head; 0 = head_size
  double scale = 0;             // of the scores; 0 = 1 / sqrt(head_size)
  double cap = 0;               // of the scores; 0 = none
  [[nodiscard]] std::int64_t values() const { return value_size > 0 ? value_size : head_size; }
  friend auto operator<=>(const AttentionCall&, const AttentionCall&) = default;
};

// One a device. Plans and scratch are made at the first call of a shape; later calls only launch.
class AttentionLibrary {
 public:
  // cuDNN's fused backward adds up dq in the order in which its blocks end; `deterministic` goes by
  // products instead, the same bits every time, and slower.
  explicit AttentionLibrary(MatmulLibrary& matmuls, bool deterministic = false);
  ~AttentionLibrary();
  AttentionLibrary(const AttentionLibrary&) = delete;
  AttentionLibrary& operator=(const AttentionLibrary&) = delete;
  AttentionLibrary(AttentionLibrary&&) = delete;
  AttentionLibrary& operator=(AttentionLibrary&&) = delete;

  // y[batch*sequence, heads*values()], lse[batch, heads, sequence] from qkv. `matmul_workspace` as
  // MatmulLibrary::run.
  void forward(const AttentionCall& call, const __nv_bfloat16* qkv, __nv_bfloat16* y, float* lse,
               void* matmul_workspace, cudaStream_t stream);
  void backward(const AttentionCall& call, const __nv_bfloat16* dy, const __nv_bfloat16* qkv,
                const __nv_bfloat16* y, const float* lse, __nv_bfloat16* dqkv,
                void* matmul_workspace, cudaStream_t stream);

  // "cudnn", or why cuDNN has no plan for the shape.
  std::string path(const AttentionCall& call);
  // Of whole sequences and of shared ones.
  [[nodiscard]] std::size_t scratch_bytes() const;
  // Attention over sequences that ranks share.
  [[nodiscard]] ContextAttention& context() { return *context_; }

 private:
  struct Plans;
  Plans& plans_for(const AttentionCall& call);
  std::byte* scratch(std::size_t bytes);
  void forward_by_products(const AttentionCall& call, const __nv_bfloat16* qkv, __nv_bfloat16* y,
                           float* lse, void* matmul_workspace, cudaStream_t stream);
  void backward_by_products(const AttentionCall& call, const __nv_bfloat16* dy,
                            const __nv_bfloat16* qkv, const __nv_bfloat16* y, const float* lse,
                            __nv_bfloat16* dqkv, void* matmul_workspace, cudaStream_t stream);

  MatmulLibrary& matmuls_;
  bool deterministic_ = false;
  cudnnHandle_t handle_ = nullptr;
  std::unique_ptr<ContextAttention> context_;
  std::map<AttentionCall, std::unique_ptr<Plans>> plans_;
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace trireme::runtime::cuda
