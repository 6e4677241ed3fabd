// Attention of this rank's queries over the keys of one member of the ring, by cuDNN's fused
// kernels.
#include <limits>

#include "runtime/cuda/check.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/context_attention.h"

namespace trireme::runtime::cuda {
namespace {

using Bf16 = __nv_bfloat16;

std::size_t padded(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + 255) / 256 * 256);
}

void* pointer_to(const void* pointer) {
  return const_cast<void*>(pointer);
}

AttentionPiece piece_of(const RingShape& c) {
  const std::int64_t dq = c.heads * c.head_dim;
  return {.batch = c.batch,
          .queries = c.queries(),
          .keys = c.keys(),
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_size = c.head_dim,
          .value_size = c.v_dim,
          .causal = c.own(),
          .q_row = c.qkv(),
          .q_batch = c.tokens * c.qkv(),
          .kv_row = c.kv(),
          .kv_batch = c.tokens * c.kv(),
          .y_row = c.out(),
          .y_batch = c.tokens * c.out(),
          .lse_head = c.tokens,
          .dq_row = dq,
          .dq_batch = c.queries() * dq,
          .dkv_row = c.kv(),
          .dkv_batch = c.tokens * c.kv()};
}

}  // namespace

void ContextAttention::ring_forward(const RingShape& c, const Bf16* qkv, const Bf16* kv, Bf16* y,
                                    float* lse, cudaStream_t stream) {
  const AttentionForwardGraph& made = plans_for(piece_of(c)).forward;
  auto scale = static_cast<float>(c.scale);
  float masked = -std::numeric_limits<float>::infinity();
  std::vector<std::pair<CudnnGraph::Tensor, void*>> pointers = {
      {made.q, pointer_to(qkv + c.first_query() * c.qkv())},
      {made.k, pointer_to(kv)},
      {made.v, pointer_to(kv + c.kv_heads * c.head_dim)},
      {made.y, y},
      {made.lse, lse},
      {made.scale, &scale}};
  if (c.own()) {
    pointers.emplace_back(made.masked, &masked);
  }
  check(cudnnSetStream(handle_, stream), "cuDNN stream");
  made.graph.execute(handle_, pointers,
                     scratch(static_cast<std::size_t>(made.graph.workspace_bytes())));
}

void ContextAttention::ring_backward(const RingShape& c, const Bf16* dy, const Bf16* qkv,
                                     const Bf16* kv, const Bf16* y, const float* lse, Bf16* dqkv,
                                     Bf16* dkv, cudaStream_t stream) {
  const AttentionBackwardGraph& made = plans_for(piece_of(c)).backward;
  auto scale = static_cast<float>(c.scale);
  float masked = -std::numeric_limits<float>::infinity();
  float one = 1.0F;
  const std::int64_t width = c.heads * c.head_dim;
  const std::int64_t queries = c.batch * c.queries();
  const std::size_t sums = padded(queries * c.heads * 4);
  const std::size_t dq_sums = padded(queries * width * 4);
  const std::size_t dq_bytes = padded(queries * width * 2);
  std::byte* memory =
      scratch(sums + dq_sums + dq_bytes + static_cast<std::size_t>(made.graph.workspace_bytes()));
  auto* dq = reinterpret_cast<Bf16*>(memory + sums + dq_sums);
  const std::int64_t values = c.kv_heads * c.head_dim;
  const std::int64_t query = c.first_query();
  std::vector<std::pair<CudnnGraph::Tensor, void*>> pointers = {
      {made.q, pointer_to(qkv + query * c.qkv())},
      {made.k, pointer_to(kv)},
      {made.v, pointer_to(kv + values)},
      {made.y, pointer_to(y + query * c.out())},
      {made.dy, pointer_to(dy + query * c.out())},
      {made.lse, pointer_to(lse + query)},
      {made.dq, dq},
      {made.dk, dkv},
      {made.dv, dkv + values},
      {made.scale, &scale},
      {made.one, &one},
      {made.softmax_sum, memory},
      {made.dq_sum, memory + sums}};
  if (c.own()) {
    pointers.emplace_back(made.masked, &masked);
  }
  if (c.earlier()) {  // half of its keys are seen by none
    const std::int64_t elements = c.batch * c.tokens * c.kv();
    check(cudaMemsetAsync(dkv, 0, static_cast<std::size_t>(elements) * sizeof(Bf16), stream),
          "attention gradient");
  }
  check(cudnnSetStream(handle_, stream), "cuDNN stream");
  made.graph.execute(handle_, pointers, memory + sums + dq_sums + dq_bytes);
  add_rows(stream,
           {c.batch, c.queries(), width, c.queries() * width, width, c.tokens * c.qkv(), c.qkv()},
           dq, dqkv + query * c.qkv());
}

}  // namespace trireme::runtime::cuda
