// Memory-bound kernels of the reference backend: rotary embedding, activations, bias, residual
// sums, embedding table.
#pragma once

#include <cstdint>

#include "core/arithmetic.h"

namespace trireme::runtime::cpu {

struct RotaryShape {
  std::int64_t rows = 0;  // tokens
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t head_stride = 0;                       // between heads
  std::int64_t stride = 0;                            // between tokens
  std::int64_t length = 0;                            // tokens of a whole sequence
  std::int64_t first_position = 0;                    // of each sequence's first row
  std::int64_t context_ranks = 1, context_place = 0;  // that share each sequence (core/program.h)
};

// Turns pairs of each head in place by their position (Su et al. 2021); `backward` turns by the
// negative angle.
template <typename T>
void rotary(const RotaryShape& shape, const RotaryTable& table, T* x, bool backward);

// Latent attention's heads (core/kernels.h, latent_heads_*).
struct LatentShape {
  std::int64_t heads = 0, nope = 0, rope = 0, value = 0;
  [[nodiscard]] std::int64_t qk() const { return nope + rope; }
};
// `turned`: how the rotary parts turn, one head after the other; null: they do not.
template <typename T>
void latent_heads_forward(const LatentShape& shape, const RotaryShape& positions,
                          const RotaryTable* turned, const T* q, const T* kv, const T* key, T* qkv);
template <typename T>
void latent_heads_backward(const LatentShape& shape, const RotaryShape& positions,
                           const RotaryTable* turned, const T* dqkv, T* dq, T* dkv, T* dkey);

// y[rows, width] = act(gate) * up, with x[rows, 2 * width] = gate, up; plain: silu.
template <typename T>
void swiglu_forward(std::int64_t rows, std::int64_t width, Activation act, const T* x, T* y);
template <typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, Activation act, const T* x, const T* dy,
                     T* dx);

// y = act(x); plain: GELU in its tanh form (Hendrycks and Gimpel 2016), as GPT-2 and Megatron use
// it.
template <typename T>
void gelu_forward(std::int64_t count, Activation act, const T* x, T* y);
template <typename T>
void gelu_backward(std::int64_t count, Activation act, const T* x, const T* dy, T* dx);

// x[row, :] += bias.
template <typename T>
void add_bias(std::int64_t rows, std::int64_t width, const T* bias, T* x);
// dbias += the sum of dy's rows.
template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t width, const T* dy, T* dbias);
// y = factor * x; y may be x.
template <typename T>
void scale(std::int64_t count, T factor, const T* x, T* y);
// y = a + b; y may be a or b.
template <typename T>
void add(std::int64_t count, const T* a, const T* b, T* y);

struct EmbeddingShape {
  std::int64_t rows = 0;       // tokens
  std::int64_t width = 0;      // hidden
  std::int64_t first_row = 0;  // of the table's shard
  std::int64_t table_rows = 0;
  double multiplier = 1;
};

// y[row] = multiplier * table[token - first_row], zero for a token of another shard.
template <typename T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* table,
                       T* y);
// dtable[token - first_row] += multiplier * dy[row].
template <typename T>
void embedding_backward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* dy,
                        T* dtable);

struct PositionShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t length = 0;     // tokens of a sequence
  std::int64_t first_row = 0;  // of these rows among the micro-batch's tokens
  std::int64_t context_ranks = 1, context_place = 0;
};

// y[row] += table[position], of the token first_row + row.
template <typename T>
void position_forward(const PositionShape& shape, const T* table, T* y);
// dtable[position] += dy[row].
template <typename T>
void position_backward(const PositionShape& shape, const T* dy, T* dtable);

}  // namespace trireme::runtime::cpu
