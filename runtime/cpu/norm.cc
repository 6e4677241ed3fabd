#include "runtime/cpu/norm.h"

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
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* in = x + row * shape.width;
    T* out = y + row * shape.width;
    const Statistics<T> s = statistics_of(shape, in);
    for (std::int64_t i = 0; i < shape.width; ++i) {
      out[i] = (in[i] - s.mean) * s.reciprocal * weight[i] + (bias != nullptr ? bias[i] : T(0));
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
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* in = x + row * shape.width;
    const T* grad = dy + row * shape.width;
    T* out = dx + row * shape.width;
    const Statistics<T> s = statistics_of(shape, in);
    T sum = 0;
    T dot = 0;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const T normalised = (in[i] - s.mean) * s.reciprocal;
      const T g = grad[i] * weight[i];
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
      out[i] = s.reciprocal * (grad[i] * weight[i] - shift - normalised * dot / width);
    }
  }
}

template void norm_forward<float>(const NormShape&, const float*, const float*, const float*,
                                  float*, float*, float*);
template void norm_backward<float>(const NormShape&, const float*, const float*, const float*,
                                   float*, float*, float*);
template void norm_forward<double>(const NormShape&, const double*, const double*, const double*,
                                   double*, double*, double*);
template void norm_backward<double>(const NormShape&, const double*, const double*, const double*,
                                    double*, double*, double*);

}  // namespace trireme::runtime::cpu
