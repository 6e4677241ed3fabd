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

template <typename T>
T logit_of(const LogitShape& s, T x) {
  const T scaled = static_cast<T>(s.multiplier) * x;
  const auto cap = static_cast<T>(s.cap);
  return s.cap > 0 ? cap * std::tanh(scaled / cap) : scaled;
}

// What a logit changes by its operand.
template <typename T>
T slope_of(const LogitShape& s, T logit) {
  const T bent = s.cap > 0 ? logit / static_cast<T>(s.cap) : T(0);
  return static_cast<T>(s.multiplier) * (T(1) - bent * bent);
}
}  // namespace

template <typename T>
void logit_statistics(const LogitShape& s, const T* logits, const std::int32_t* targets, T* maxima,
                      T* sums, T* target_logits) {
  const std::int64_t real = real_width(s);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const T* line = logits + row * s.width;
    T highest = -std::numeric_limits<T>::infinity();
    for (std::int64_t i = 0; i < real; ++i) {
      highest = std::max(highest, logit_of(s, line[i]));
    }
    T sum = 0;
    for (std::int64_t i = 0; i < real; ++i) {
      sum += std::exp(logit_of(s, line[i]) - highest);
    }
    maxima[row] = highest;
    sums[row] = sum;
    const std::int64_t target = targets[row] - s.first;
    target_logits[row] = target >= 0 && target < real ? logit_of(s, line[target]) : T(0);
  }
}

template <typename T>
void statistics_rescale(std::int64_t rows, const T* local_maxima, const T* global_maxima, T* sums) {
  for (std::int64_t row = 0; row < rows; ++row) {
    sums[row] *= std::exp(local_maxima[row] - global_maxima[row]);
  }
}

template <typename T>
T loss_sum(std::int64_t rows, const T* maxima, const T* sums, const T* target_logits) {
  T total = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    total += maxima[row] + std::log(sums[row]) - target_logits[row];
  }
  return total;
}

template <typename T>
void loss_gradient(const LogitShape& s, T* logits, const std::int32_t* targets, const T* maxima,
                   const T* sums, T scale) {
  const std::int64_t real = real_width(s);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::int64_t target = targets[row] - s.first;
    T* line = logits + row * s.width;
    for (std::int64_t i = 0; i < s.width; ++i) {
      if (i >= real) {
        line[i] = T(0);
        continue;
      }
      const T logit = logit_of(s, line[i]);
      const T softmax = std::exp(logit - maxima[row]) / sums[row];
      line[i] = (softmax - (i == target ? T(1) : T(0))) * scale * slope_of(s, logit);
    }
  }
}

template void logit_statistics<float>(const LogitShape&, const float*, const std::int32_t*, float*,
                                      float*, float*);
template void statistics_rescale<float>(std::int64_t, const float*, const float*, float*);
template float loss_sum<float>(std::int64_t, const float*, const float*, const float*);
template void loss_gradient<float>(const LogitShape&, float*, const std::int32_t*, const float*,
                                   const float*, float);
template void logit_statistics<double>(const LogitShape&, const double*, const std::int32_t*,
                                       double*, double*, double*);
template void statistics_rescale<double>(std::int64_t, const double*, const double*, double*);
template double loss_sum<double>(std::int64_t, const double*, const double*, const double*);
template void loss_gradient<double>(const LogitShape&, double*, const std::int32_t*, const double*,
                                    const double*, double);

}  // namespace trireme::runtime::cpu
