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
};

// y = (x - mean) / sqrt(var + eps) * weight + bias; RMSNorm without mean and bias. `bias` may be
// null. `reciprocal` [rows] and, when centred, `mean` [rows] receive the statistics that backward
// needs; either may be null.
template <typename T>
void norm_forward(const NormShape& shape, const T* x, const T* weight, const T* bias, T* y, T* mean,
                  T* reciprocal);

// Recomputes the statistics from x. dx is written; dweight and dbias (may be null) are added to.
template <typename T>
void norm_backward(const NormShape& shape, const T* x, const T* weight, const T* dy, T* dx,
                   T* dweight, T* dbias);

}  // namespace trireme::runtime::cpu
