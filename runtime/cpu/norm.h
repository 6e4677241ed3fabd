// LayerNorm and RMSNorm over the last dimension, forward and backward. `rows` tokens of `width`
// features.
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  bool centred = false;  // true: LayerNorm (subtracts the mean, has a bias); false: RMSNorm
  double epsilon = 1e-5;
  double weight_offset = 0;  // added to every weight
};

// y = (x - mean) / sqrt(var + eps) * weight + bias; RMSNorm without mean and bias. `bias` may be
// null. `reciprocal` [rows] and, when centred, `mean` [rows] receive the statistics that backward
// needs; either may be null.
template <typename T>
void norm_forward(const NormShape& shape, const T* x, const T* weight, const T* bias, T* y, T* mean,
                  T* reciprocal);

// Recomputes the statistics from x. dx is written (it may be dy); dweight and dbias (may be null)
// are added to.
template <typename T>
void norm_backward(const NormShape& shape, const T* x, const T* weight, const T* dy, T* dx,
                   T* dweight, T* dbias);

// RMSNorm over each query and key head (Qwen3, Gemma3): a row is [query heads | key heads | value
// heads].
struct HeadNormShape {
  std::int64_t rows = 0, query_heads = 0, kv_heads = 0, head_dim = 0;
  double epsilon = 1e-5, weight_offset = 0;
};

// Values are copied. `reciprocal` [rows, query_heads + kv_heads].
template <typename T>
void head_norm_forward(const HeadNormShape& shape, const T* x, const T* query_weight,
                       const T* key_weight, T* y, T* reciprocal);

// dx is written and may be dy; the weights' gradients are added to.
template <typename T>
void head_norm_backward(const HeadNormShape& shape, const T* dy, const T* x, const T* query_weight,
                        const T* key_weight, T* dx, T* dquery_weight, T* dkey_weight);

}  // namespace trireme::runtime::cpu
