// Memory-bound kernels of the reference backend: rotary embedding, activations, bias, residual
// sums, embedding table.
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct RotaryShape {
  std::int64_t rows = 0;  // tokens
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;  // even; the halves are rotated against each other (GPT-NeoX, Llama)
  std::int64_t stride = 0;    // between tokens
  std::int64_t length = 0;    // tokens of a whole sequence
  std::int64_t first_position = 0;  // of each sequence's first row
  double theta = 10000.0;
  std::int64_t context_ranks = 1, context_place = 0;  // that share each sequence (core/program.h)
};

// Rotates `x` in place by its position (Su et al. 2021); `backward` rotates by the negative angle.
template <typename T>
void rotary(const RotaryShape& shape, T* x, bool backward);

// y[rows, width] = silu(gate) * up, with x[rows, 2 * width] = gate, up.
template <typename T>
void swiglu_forward(std::int64_t rows, std::int64_t width, const T* x, T* y);
template <typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* x, const T* dy, T* dx);

// GELU in its tanh form (Hendrycks and Gimpel 2016), as GPT-2 and Megatron use it.
template <typename T>
void gelu_forward(std::int64_t count, const T* x, T* y);
template <typename T>
void gelu_backward(std::int64_t count, const T* x, const T* dy, T* dx);

// x[row, :] += bias.
template <typename T>
void add_bias(std::int64_t rows, std::int64_t width, const T* bias, T* x);
// dbias += the sum of dy's rows.
template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t width, const T* dy, T* dbias);
// y = a + b; y may be a or b.
template <typename T>
void add(std::int64_t count, const T* a, const T* b, T* y);

struct EmbeddingShape {
  std::int64_t rows = 0;       // tokens
  std::int64_t width = 0;      // hidden
  std::int64_t first_row = 0;  // of the table's shard
  std::int64_t table_rows = 0;
};

// y[row] = table[token - first_row], zero for a token of another shard.
template <typename T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* table,
                       T* y);
// dtable[token - first_row] += dy[row].
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
