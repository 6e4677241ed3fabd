#include "runtime/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::runtime::cpu {
namespace {
// How many of the shard's columns are real vocabulary entries.
std::int64_t real_width(const LogitShape& s) {
  return std::clamp<std::int64_t>(s.vocabulary - s.first, 0, s.width);
}
}  // namespace

template <typename T>
void loss_maxima(const LogitShape& s, const T* logits, T* maxima) {
  const std::int64_t real = real_width(s);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    T highest = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < real; ++i) {
      highest = std::max(highest, logits[row * s.width + i]);
    }
    maxima[row] = highest;
  }
}

template <typename T>
void loss_sums(const LogitShape& s, const T* logits, const std::int32_t* targets, const T* maxima,
               T* sums, T* target_logits) {
  const std::int64_t real = real_width(s);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    T sum = 0;
    for (std::int64_t i = 0; i < real; ++i) {
      sum += std::exp(logits[row * s.width + i] - maxima[row]);
    }
    sums[row] = sum;
    const std::int64_t target = targets[row] - s.first;
    target_logits[row] =
        target >= 0 && target < real ? logits[row * s.width + target] - maxima[row] : T(0);
  }
}

template <typename T>
void loss_values(std::int64_t rows, const T* sums, const T* target_logits, T* losses) {
  for (std::int64_t row = 0; row < rows; ++row) {
    losses[row] = std::log(sums[row]) - target_logits[row];
  }
}

template <typename T>
void loss_gradient(const LogitShape& s, const T* logits, const std::int32_t* targets,
                   const T* maxima, const T* sums, T scale, T* dlogits) {
  const std::int64_t real = real_width(s);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::int64_t target = targets[row] - s.first;
    for (std::int64_t i = 0; i < s.width; ++i) {
      const T softmax =
          i < real ? std::exp(logits[row * s.width + i] - maxima[row]) / sums[row] : T(0);
      dlogits[row * s.width + i] = (softmax - (i == target ? T(1) : T(0))) * scale;
    }
  }
}

template void loss_maxima<float>(const LogitShape&, const float*, float*);
template void loss_sums<float>(const LogitShape&, const float*, const std::int32_t*, const float*,
                               float*, float*);
template void loss_values<float>(std::int64_t, const float*, const float*, float*);
template void loss_gradient<float>(const LogitShape&, const float*, const std::int32_t*,
                                   const float*, const float*, float, float*);
template void loss_maxima<double>(const LogitShape&, const double*, double*);
template void loss_sums<double>(const LogitShape&, const double*, const std::int32_t*,
                                const double*, double*, double*);
template void loss_values<double>(std::int64_t, const double*, const double*, double*);
template void loss_gradient<double>(const LogitShape&, const double*, const std::int32_t*,
                                    const double*, const double*, double, double*);

}  // namespace trireme::runtime::cpu
