#include "runtime/cuda/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cuda/attention_graph.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/context_attention.h"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

std::size_t rounded(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Where q, k and v begin in a row, in elements.
struct Parts {
  std::int64_t k, v, width;
  explicit Parts(const AttentionCall& call)
      : k(call.heads * call.head_size),
        v((call.heads + call.kv_heads) * call.head_size),
        width(v + call.kv_heads * call.values()) {}
};

float scale_of(const AttentionCall& call) {
  return call.scale > 0 ? static_cast<float>(call.scale)
                        : 1.0F / std::sqrt(static_cast<float>(call.head_size));
}

// cuDNN before 9.10 wants the lowest finite number for a masked score.
float masked_score() {
  return cudnnGetVersion() < 91000 ? std::numeric_limits<float>::lowest()
                                   : -std::numeric_limits<float>::infinity();
}

ScoreNumbers numbers_of(const AttentionCall& call) {
  return {call.window, scale_of(call), call.cap};
}

// The products of a group of query heads that share a key head, one a head, of `size` elements.
// Rows of `row_a`, `row_b` and `row_c` elements, in which the group's heads lie side by side.
MatmulCall scores_product(const AttentionCall& call, std::int64_t size, std::int64_t row_a,
                          std::int64_t row_b) {
  return {.m = call.sequence,
          .n = call.sequence,
          .k = size,
          .transpose_b = true,
          .batch = call.heads / call.kv_heads,
          .stride_a = size,
          .stride_b = 0,
          .stride_c = call.sequence * call.sequence,
          .row_a = row_a,
          .row_b = row_b};
}
// Scores times the shared keys or values.
MatmulCall rows_product(const AttentionCall& call, std::int64_t size, std::int64_t row_b,
                        std::int64_t row_c) {
  return {.m = call.sequence,
          .n = size,
          .k = call.sequence,
          .batch = call.heads / call.kv_heads,
          .stride_a = call.sequence * call.sequence,
          .stride_b = 0,
          .stride_c = size,
          .row_b = row_b,
          .row_c = row_c};
}
// Transposed scores times one head's rows, added to what the group's earlier heads left.
MatmulCall key_gradient_product(const AttentionCall& call, std::int64_t head_of_group,
                                std::int64_t size, std::int64_t row_b, std::int64_t row_c) {
  return {.m = call.sequence,
          .n = size,
          .k = call.sequence,
          .transpose_a = true,
          .accumulate = head_of_group > 0,
          .row_b = row_b,
          .row_c = row_c};
}

void* address(const void* pointer) {
  return const_cast<void*>(pointer);
}

}  // namespace

struct AttentionLibrary::Plans {
  AttentionForwardGraph forward;
  AttentionBackwardGraph backward;
  bool fused = false;
  std::string reason;  // why not
};

AttentionLibrary::AttentionLibrary(MatmulLibrary& matmuls, bool deterministic)
    : matmuls_(matmuls), deterministic_(deterministic) {
  check(cudnnCreate(&handle_), "cuDNN");
  context_ = std::make_unique<ContextAttention>(handle_);
}

AttentionLibrary::~AttentionLibrary() {
  plans_.clear();
  context_.reset();
  cudnnDestroy(handle_);
  cudaFree(scratch_);
}

std::size_t AttentionLibrary::scratch_bytes() const {
  return scratch_bytes_ + context_->scratch_bytes();
}

std::byte* AttentionLibrary::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    check(cudaDeviceSynchronize(), "attention scratch");
    check(cudaFree(scratch_), "attention scratch");
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "attention scratch");
    scratch_ = static_cast<std::byte*>(memory);
    scratch_bytes_ = bytes;
  }
  return scratch_;
}

AttentionLibrary::Plans& AttentionLibrary::plans_for(const AttentionCall& call) {
  std::unique_ptr<Plans>& plans = plans_[call];
  if (plans == nullptr) {
    plans = std::make_unique<Plans>();
    if (call.window != 0 && call.window < call.sequence) {
      plans->reason = "a sliding window";
      return *plans;
    }
    if (call.cap > 0) {
      plans->reason = "capped scores";
      return *plans;
    }
    try {
      plans->forward = attention_forward_graph(piece_of(call));
      plans->backward = attention_backward_graph(piece_of(call));
      plans->fused = plans->forward.graph.build(handle_, plans->reason) &&
                     plans->backward.graph.build(handle_, plans->reason);
    } catch (const Error& error) {
      plans->reason = error.what();
    }
  }
  return *plans;
}

std::string AttentionLibrary::path(const AttentionCall& call) {
  const Plans& plans = plans_for(call);
  return plans.fused ? "cudnn" : plans.reason;
}

void AttentionLibrary::forward(const AttentionCall& call, const __nv_bfloat16* qkv,
                               __nv_bfloat16* y, float* lse, void* matmul_workspace,
                               cudaStream_t stream) {
  Plans& plans = plans_for(call);
  if (!plans.fused) {
    forward_by_products(call, qkv, y, lse, matmul_workspace, stream);
    return;
  }
  const Parts parts(call);
  float scale = scale_of(call);
  float masked = masked_score();
  const AttentionForwardGraph& made = plans.forward;
  check(cudnnSetStream(handle_, stream), "cuDNN stream");
  made.graph.execute(handle_,
                     {{made.q, address(qkv)},
                      {made.k, address(qkv + parts.k)},
                      {made.v, address(qkv + parts.v)},
                      {made.y, y},
                      {made.lse, lse},
                      {made.scale, &scale},
                      {made.masked, &masked}},
                     scratch(static_cast<std::size_t>(made.graph.workspace_bytes())));
}

void AttentionLibrary::backward(const AttentionCall& call, const __nv_bfloat16* dy,
                                const __nv_bfloat16* qkv, const __nv_bfloat16* y, const float* lse,
                                __nv_bfloat16* dqkv, void* matmul_workspace, cudaStream_t stream) {
  Plans& plans = plans_for(call);
  if (!plans.fused || deterministic_) {
    backward_by_products(call, dy, qkv, y, lse, dqkv, matmul_workspace, stream);
    return;
  }
  const Parts parts(call);
  float scale = scale_of(call);
  float masked = masked_score();
  float one = 1.0F;
  const AttentionBackwardGraph& made = plans.backward;
  const auto rows = static_cast<std::size_t>(call.batch * call.heads * call.sequence);
  const std::size_t sum_bytes = rounded(rows * sizeof(float));
  const std::size_t dq_bytes =
      rounded(rows * static_cast<std::size_t>(call.head_size) * sizeof(float));
  std::byte* memory =
      scratch(sum_bytes + dq_bytes + static_cast<std::size_t>(made.graph.workspace_bytes()));
  check(cudnnSetStream(handle_, stream), "cuDNN stream");
  if (cudnnGetVersion() < 90600) {  // later versions clear what they accumulate into
    check(cudaMemsetAsync(memory + sum_bytes, 0, dq_bytes, stream), "attention scratch");
  }
  made.graph.execute(handle_,
                     {{made.q, address(qkv)},
                      {made.k, address(qkv + parts.k)},
                      {made.v, address(qkv + parts.v)},
                      {made.y, address(y)},
                      {made.dy, address(dy)},
                      {made.lse, address(lse)},
                      {made.dq, dqkv},
                      {made.dk, dqkv + parts.k},
                      {made.dv, dqkv + parts.v},
                      {made.scale, &scale},
                      {made.masked, &masked},
                      {made.one, &one},
                      {made.softmax_sum, memory},
                      {made.dq_sum, memory + sum_bytes}},
                     memory + sum_bytes + dq_bytes);
}

void AttentionLibrary::forward_by_products(const AttentionCall& call, const __nv_bfloat16* qkv,
                                           __nv_bfloat16* y, float* lse, void* matmul_workspace,
                                           cudaStream_t stream) {
  const Parts parts(call);
  const std::int64_t s = call.sequence;
  const std::int64_t d = call.head_size;
  const std::int64_t v = call.values();
  const std::int64_t group = call.heads / call.kv_heads;
  auto* scores =
      reinterpret_cast<__nv_bfloat16*>(scratch(static_cast<std::size_t>(group * s * s) * 2));
  for (std::int64_t batch = 0; batch < call.batch; ++batch) {
    for (std::int64_t g = 0; g < call.kv_heads; ++g) {
      const __nv_bfloat16* rows = qkv + batch * s * parts.width;
      const __nv_bfloat16* q = rows + g * group * d;
      matmuls_.run(scores_product(call, d, parts.width, parts.width), q, rows + parts.k + g * d,
                   scores, matmul_workspace, stream);
      causal_softmax(stream, scores, lse + (batch * call.heads + g * group) * s, group, s,
                     numbers_of(call));
      matmuls_.run(rows_product(call, v, parts.width, call.heads * v), scores,
                   rows + parts.v + g * v, y + batch * s * call.heads * v + g * group * v,
                   matmul_workspace, stream);
    }
  }
}

void AttentionLibrary::backward_by_products(const AttentionCall& call, const __nv_bfloat16* dy,
                                            const __nv_bfloat16* qkv, const __nv_bfloat16* y,
                                            const float* lse, __nv_bfloat16* dqkv,
                                            void* matmul_workspace, cudaStream_t stream) {
  const Parts parts(call);
  const std::int64_t s = call.sequence;
  const std::int64_t d = call.head_size;
  const std::int64_t v = call.values();
  const std::int64_t group = call.heads / call.kv_heads;
  const std::int64_t out_row = call.heads * v;
  const std::size_t delta_bytes =
      rounded(static_cast<std::size_t>(call.batch * call.heads * s) * sizeof(float));
  const std::size_t score_bytes = rounded(static_cast<std::size_t>(group * s * s) * 2);
  std::byte* memory = scratch(delta_bytes + 2 * score_bytes);
  auto* delta = reinterpret_cast<float*>(memory);
  auto* scores = reinterpret_cast<__nv_bfloat16*>(memory + delta_bytes);
  auto* dscores = reinterpret_cast<__nv_bfloat16*>(memory + delta_bytes + score_bytes);
  attention_delta(stream, dy, y, delta, call.batch * s, call.heads, v, s);
  for (std::int64_t batch = 0; batch < call.batch; ++batch) {
    for (std::int64_t g = 0; g < call.kv_heads; ++g) {
      const std::int64_t at = batch * s * parts.width;
      const std::int64_t head = batch * call.heads + g * group;
      const __nv_bfloat16* q = qkv + at + g * group * d;
      const __nv_bfloat16* k = qkv + at + parts.k + g * d;
      const __nv_bfloat16* gradient = dy + batch * s * out_row + g * group * v;
      matmuls_.run(scores_product(call, d, parts.width, parts.width), q, k, scores,
                   matmul_workspace, stream);
      matmuls_.run(scores_product(call, v, out_row, parts.width), gradient,
                   qkv + at + parts.v + g * v, dscores, matmul_workspace, stream);
      causal_softmax_backward(stream, scores, dscores, lse + head * s, delta + head * s, group, s,
                              numbers_of(call));
      matmuls_.run(rows_product(call, d, parts.width, parts.width), dscores, k,
                   dqkv + at + g * group * d, matmul_workspace, stream);
      for (std::int64_t h = 0; h < group; ++h) {
        matmuls_.run(key_gradient_product(call, h, d, parts.width, parts.width),
                     dscores + h * s * s, q + h * d, dqkv + at + parts.k + g * d, matmul_workspace,
                     stream);
        matmuls_.run(key_gradient_product(call, h, v, out_row, parts.width), scores + h * s * s,
                     gradient + h * v, dqkv + at + parts.v + g * v, matmul_workspace, stream);
      }
    }
  }
}

}  // namespace trireme::runtime::cuda
