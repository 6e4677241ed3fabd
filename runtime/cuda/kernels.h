// The kernels that no library has, in bf16 with fp32 states: one launch function for a row of
// core/kernels.h. Pointers are device pointers, aligned to 16 bytes; work is queued on `stream` and
// nothing waits. Launch errors surface at the caller's cudaGetLastError. Sums run in a fixed order,
// so that two runs give the same bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/arithmetic.h"

namespace trireme::runtime::cuda {

using Bf16 = __nv_bfloat16;

// Scratch memory of the stream that a kernel runs on, for partial sums.
struct Scratch {
  float* data = nullptr;
  std::size_t bytes = 0;
};
// Bytes that any kernel below may need for rows of `columns` elements.
std::size_t scratch_bytes(std::int64_t columns);

// Where the tokens of a sequence lie that a rank has: the first `chunk` from `low` on, the others
// from `high` on.
struct Positions {
  std::int64_t own, chunk, low, high;
};

// What norms add under the root, and to every weight.
struct NormNumbers {
  float epsilon = 1e-5F, weight_offset = 0.0F;
};
// A logit is cap * tanh(multiplier * x / cap); cap 0: multiplier * x.
struct LogitNumbers {
  float multiplier = 1.0F, cap = 0.0F;
};
// core/arithmetic.h's RotaryTable as a launch takes it.
struct RotaryTurns {
  int pairs = 0;
  bool neighbours = false;
  float scale = 1.0F;
  float frequencies[128] = {};
};

// ---- embedding.cu
void embedding_forward(cudaStream_t stream, const std::int32_t* tokens, const Bf16* table, Bf16* y,
                       std::int64_t rows, std::int64_t hidden, std::int64_t table_rows,
                       std::int64_t first_row, float multiplier = 1.0F);
void embedding_backward(cudaStream_t stream, const std::int32_t* tokens, const Bf16* dy,
                        float* dtable, std::int64_t rows, std::int64_t hidden,
                        std::int64_t table_rows, std::int64_t first_row, bool accumulate,
                        float multiplier = 1.0F);
void position_forward(cudaStream_t stream, Bf16* y, const Bf16* table, std::int64_t rows,
                      std::int64_t hidden, const Positions& positions, std::int64_t first_token);
void position_backward(cudaStream_t stream, const Bf16* dy, float* dtable, std::int64_t rows,
                       std::int64_t hidden, const Positions& positions, std::int64_t table_rows,
                       std::int64_t first_token, bool accumulate);

// ---- norm.cu
void rms_norm_forward(cudaStream_t stream, const Bf16* x, const Bf16* weight, Bf16* y, float* rstd,
                      std::int64_t rows, std::int64_t hidden, NormNumbers numbers = {});
void layer_norm_forward(cudaStream_t stream, const Bf16* x, const Bf16* weight, const Bf16* bias,
                        Bf16* y, float* mean, float* rstd, std::int64_t rows, std::int64_t hidden,
                        NormNumbers numbers = {});
// residual may be null; dbias and mean and bias are null for RMS norm.
struct NormBackward {
  const Bf16* dy;
  const Bf16* x;
  const Bf16* weight;
  const float* mean;
  const float* rstd;
  const Bf16* residual;
  Bf16* dx;
  float* dweight;
  float* dbias;
  std::int64_t rows, hidden;
  bool accumulate;
  NormNumbers numbers = {};
};
void norm_backward(cudaStream_t stream, const NormBackward& norm, Scratch scratch);
struct HeadNorm {
  const Bf16* input;  // x forward, dy backward
  const Bf16* x;      // backward only
  const Bf16* q_weight;
  const Bf16* k_weight;
  Bf16* output;
  float* rstd;       // written forward, read backward
  float* dq_weight;  // backward only
  float* dk_weight;
  std::int64_t rows, heads, kv_heads, head_size;
  bool accumulate;
  NormNumbers numbers = {};
};
void head_norm_forward(cudaStream_t stream, const HeadNorm& norm);
void head_norm_backward(cudaStream_t stream, const HeadNorm& norm, Scratch scratch);

// ---- rotary.cu
// `heads` heads of each row lie `head_stride` elements apart, rows `row_stride`; x is the first
// turned element of all.
struct RotaryRows {
  std::int64_t rows, heads, head_stride, row_stride;
};
void rotary(cudaStream_t stream, Bf16* x, const RotaryRows& rows, const Positions& positions,
            const RotaryTurns& turns, bool inverse);
// Latent attention's heads (core/kernels.h); nope, rope and value are multiples of 8.
struct LatentHeads {
  std::int64_t rows, heads, nope, rope, value;
};
void latent_heads_forward(cudaStream_t stream, const LatentHeads& shape, const Positions& positions,
                          const RotaryTurns& turns, const Bf16* q, const Bf16* kv, const Bf16* key,
                          Bf16* qkv);
void latent_heads_backward(cudaStream_t stream, const LatentHeads& shape,
                           const Positions& positions, const RotaryTurns& turns, const Bf16* dqkv,
                           Bf16* dq, Bf16* dkv, Bf16* dkey);

// ---- elementwise.cu
void swiglu_forward(cudaStream_t stream, const Bf16* gate_up, Bf16* y, std::int64_t rows,
                    std::int64_t inner, Activation act = Activation::kSilu);
void swiglu_backward(cudaStream_t stream, const Bf16* dy, const Bf16* gate_up, Bf16* dgate_up,
                     std::int64_t rows, std::int64_t inner, Activation act = Activation::kSilu);
void gelu_forward(cudaStream_t stream, const Bf16* x, Bf16* y, std::int64_t count,
                  Activation act = Activation::kGeluTanh);
void gelu_backward(cudaStream_t stream, const Bf16* dy, const Bf16* x, Bf16* dx, std::int64_t count,
                   Activation act = Activation::kGeluTanh);
// y = factor * x; y may be x.
void scale(cudaStream_t stream, const Bf16* x, Bf16* y, std::int64_t count, float factor);
void bias_forward(cudaStream_t stream, Bf16* y, const Bf16* bias, std::int64_t rows,
                  std::int64_t columns);
void bias_backward(cudaStream_t stream, const Bf16* dy, float* dbias, std::int64_t rows,
                   std::int64_t columns, bool accumulate, Scratch scratch);
// y += x and y = x, for each pair of bf16 and fp32.
template <typename Y, typename X>
void add(cudaStream_t stream, Y* y, const X* x, std::int64_t count);
template <typename X, typename Y>
void cast(cudaStream_t stream, const X* x, Y* y, std::int64_t count);

// ---- cross_entropy.cu
void logit_statistics(cudaStream_t stream, const Bf16* logits, const std::int32_t* targets,
                      float* local_max, float* sums, std::int64_t rows, std::int64_t columns,
                      std::int64_t vocabulary, std::int64_t first_column,
                      LogitNumbers numbers = {});
void statistics_rescale(cudaStream_t stream, const float* local_max, const float* global_max,
                        float* sums, std::int64_t rows);
void cross_entropy_loss(cudaStream_t stream, const float* global_max, const float* sums,
                        float* loss, std::int64_t rows, double denominator);
void cross_entropy_backward(cudaStream_t stream, Bf16* logits, const float* global_max,
                            const float* sums, const std::int32_t* targets, std::int64_t rows,
                            std::int64_t columns, std::int64_t vocabulary,
                            std::int64_t first_column, double denominator,
                            LogitNumbers numbers = {});

// ---- optimizer.cu
// sum += sum_i gradient[i]^2 / (first + i < replicated_from ? divisor : replicated_divisor)
struct SquaredNorm {
  const float* gradient;
  float* sum;
  std::int64_t count, first, replicated_from;
  double divisor, replicated_divisor;
};
void squared_norm(cudaStream_t stream, const SquaredNorm& norm, Scratch scratch);
void clip_factor(cudaStream_t stream, const float* sum, float* norm, float* factor,
                 double max_norm);
struct Adamw {
  const float* gradient;
  const float* factor;
  float* master;
  float* moment1;
  float* moment2;
  Bf16* weight;  // null: no cast
  std::int64_t count;
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  std::int64_t step;  // from 1
};
void adamw(cudaStream_t stream, const Adamw& update);

// ---- softmax.cu: the attention path for shapes that the fused library refuses
// Causal softmax of scaled scores [count, sequence, sequence] in place; lse gets the log-sum-exp of
// each row. Entry (c, i, j) counts when j <= i and (window == 0 or i - j < window). A score is
// capped to cap * tanh(score / cap) unless cap is 0.
struct ScoreNumbers {
  std::int64_t window = 0;
  double scale = 1, cap = 0;
};
void causal_softmax(cudaStream_t stream, Bf16* scores, float* lse, std::int64_t count,
                    std::int64_t sequence, const ScoreNumbers& numbers);
// delta = sum_j dy[row, j] * y[row, j] for each head of a token-major [rows, heads * head_size]
// pair, written [batch, heads, sequence].
void attention_delta(cudaStream_t stream, const Bf16* dy, const Bf16* y, float* delta,
                     std::int64_t rows, std::int64_t heads, std::int64_t head_size,
                     std::int64_t sequence);
// Recomputes probabilities from scores and lse, and turns dprobabilities into dscores, both in
// place.
void causal_softmax_backward(cudaStream_t stream, Bf16* scores, Bf16* dprobabilities,
                             const float* lse, const float* delta, std::int64_t count,
                             std::int64_t sequence, const ScoreNumbers& numbers);

}  // namespace trireme::runtime::cuda
