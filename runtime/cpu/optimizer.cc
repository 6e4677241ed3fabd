#include "runtime/cpu/optimizer.h"

#include <cmath>

namespace trireme::runtime::cpu {

template <typename T>
void adam_update(const AdamStep& s, std::int64_t count, const T* gradient, T* weight, T* moment1,
                 T* moment2) {
  const auto exponent = static_cast<double>(s.step);
  const auto correction1 = static_cast<T>(1.0 - std::pow(s.beta1, exponent));
  const auto correction2 = static_cast<T>(1.0 - std::pow(s.beta2, exponent));
  const auto beta1 = static_cast<T>(s.beta1);
  const auto beta2 = static_cast<T>(s.beta2);
  const auto rate = static_cast<T>(s.learning_rate);
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * static_cast<T>(s.gradient_scale);
    moment1[i] = beta1 * moment1[i] + (T(1) - beta1) * g;
    moment2[i] = beta2 * moment2[i] + (T(1) - beta2) * g * g;
    const T direction = moment1[i] / correction1 /
                        (std::sqrt(moment2[i] / correction2) + static_cast<T>(s.epsilon));
    weight[i] -= rate * (direction + static_cast<T>(s.weight_decay) * weight[i]);
  }
}

template <typename T>
T square_sum(std::int64_t count, const T* x) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += x[i] * x[i];
  }
  return sum;
}

template void adam_update<float>(const AdamStep&, std::int64_t, const float*, float*, float*,
                                 float*);
template float square_sum<float>(std::int64_t, const float*);
template void adam_update<double>(const AdamStep&, std::int64_t, const double*, double*, double*,
                                  double*);
template double square_sum<double>(std::int64_t, const double*);

}  // namespace trireme::runtime::cpu
