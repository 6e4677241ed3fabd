#include "runtime/cpu/norm.h"

#include <algorithm>
#include <cmath>

namespace trireme::runtime::cpu {
namespace {
template <typename T>
struct Statistics {
  T mean = 0;
  T reciprocal = 0;
};

template <typename T>
Statistics<T> statistics_of(const NormShape& shape, const T* x) {
  const auto width = static_cast<T>(shape.width);
  T mean = 0;
  if (shape.centred) {
    for (std::int64_t i = 0; i < shape.width; ++i) {
      mean += x[i];
    }
    mean /= width;
  }
  T variance = 0;
  for (std::int64_t i = 0; i < shape.width; ++i) {
    variance += (x[i] - mean) * (x[i] - mean);
  }
  return {mean, T(1) / std::sqrt(variance / width + static_cast<T>(shape.epsilon))};
}
}  // namespace

template <typename T>
void norm_forward(const NormShape& shape, const T* x, const T* weight, const T* bias, T* y, T* mean,
                  T* reciprocal) {
  const auto offset = static_cast<T>(shape.weight_offset);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* in = x + row * shape.width;
    T* out = y + row * shape.width;
    const Statistics<T> s = statistics_of(shape, in);
    for (std::int64_t i = 0; i < shape.width; ++i) {
      out[i] = (in[i] - s.mean) * s.reciprocal * (weight[i] + offset) +
               (bias != nullptr ? bias[i] : T(0));
    }
    if (mean != nullptr) {
      mean[row] = s.mean;
    }
    if (reciprocal != nullptr) {
      reciprocal[row] = s.reciprocal;
    }
  }
}

// With g = dy * weight and xhat the normalised input: dx = r (g - mean(g) - xhat mean(g xhat));
// RMSNorm drops mean(g).
template <typename T>
void norm_backward(const NormShape& shape, const T* x, const T* weight, const T* dy, T* dx,
                   T* dweight, T* dbias) {
  const auto width = static_cast<T>(shape.width);
  const auto offset = static_cast<T>(shape.weight_offset);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* in = x + row * shape.width;
    const T* grad = dy + row * shape.width;
    T* out = dx + row * shape.width;
    const Statistics<T> s = statistics_of(shape, in);
    T sum = 0;
    T dot = 0;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const T normalised = (in[i] - s.mean) * s.reciprocal;
      const T g = grad[i] * (weight[i] + offset);
      sum += g;
      dot += g * normalised;
      if (dweight != nullptr) {
        dweight[i] += grad[i] * normalised;
      }
      if (dbias != nullptr) {
        dbias[i] += grad[i];
      }
    }
    const T shift = shape.centred ? sum / width : T(0);
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const T normalised = (in[i] - s.mean) * s.reciprocal;
      out[i] = s.reciprocal * (grad[i] * (weight[i] + offset) - shift - normalised * dot / width);
    }
  }
}

template <typename T>
void head_norm_forward(const HeadNormShape& s, const T* x, const T* query_weight,
                       const T* key_weight, T* y, T* reciprocal) {
  const std::int64_t normed = s.query_heads + s.kv_heads;
  const std::int64_t width = (normed + s.kv_heads) * s.head_dim;
  const NormShape head{.rows = 1,
                       .width = s.head_dim,
                       .centred = false,
                       .epsilon = s.epsilon,
                       .weight_offset = s.weight_offset};
  for (std::int64_t row = 0; row < s.rows; ++row) {
    for (std::int64_t h = 0; h < normed; ++h) {
      const std::int64_t at = row * width + h * s.head_dim;
      norm_forward<T>(head, x + at, h < s.query_heads ? query_weight : key_weight, nullptr, y + at,
                      nullptr, reciprocal + row * normed + h);
    }
    std::copy(x + row * width + normed * s.head_dim, x + (row + 1) * width,
              y + row * width + normed * s.head_dim);
  }
}

template <typename T>
void head_norm_backward(const HeadNormShape& s, const T* dy, const T* x, const T* query_weight,
                        const T* key_weight, T* dx, T* dquery_weight, T* dkey_weight) {
  const std::int64_t normed = s.query_heads + s.kv_heads;
  const std::int64_t width = (normed + s.kv_heads) * s.head_dim;
  const NormShape head{.rows = 1,
                       .width = s.head_dim,
                       .centred = false,
                       .epsilon = s.epsilon,
                       .weight_offset = s.weight_offset};
  for (std::int64_t row = 0; row < s.rows; ++row) {
    for (std::int64_t h = 0; h < normed; ++h) {
      const std::int64_t at = row * width + h * s.head_dim;
      const bool query = h < s.query_heads;
      norm_backward<T>(head, x + at, query ? query_weight : key_weight, dy + at, dx + at,
                       query ? dquery_weight : dkey_weight, nullptr);
    }
    if (dx != dy) {
      std::copy(dy + row * width + normed * s.head_dim, dy + (row + 1) * width,
                dx + row * width + normed * s.head_dim);
    }
  }
}

template void norm_forward<float>(const NormShape&, const float*, const float*, const float*,
                                  float*, float*, float*);
template void norm_backward<float>(const NormShape&, const float*, const float*, const float*,
                                   float*, float*, float*);
template void head_norm_forward<float>(const HeadNormShape&, const float*, const float*,
                                       const float*, float*, float*);
template void head_norm_backward<float>(const HeadNormShape&, const float*, const float*,
                                        const float*, const float*, float*, float*, float*);
template void norm_forward<double>(const NormShape&, const double*, const double*, const double*,
                                   double*, double*, double*);
template void norm_backward<double>(const NormShape&, const double*, const double*, const double*,
                                    double*, double*, double*);
template void head_norm_forward<double>(const HeadNormShape&, const double*, const double*,
                                        const double*, double*, double*);
template void head_norm_backward<double>(const HeadNormShape&, const double*, const double*,
                                         const double*, const double*, double*, double*, double*);

}  // namespace trireme::runtime::cpu
