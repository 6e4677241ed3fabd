// AdamW (Loshchilov and Hutter 2019) and the square sum that gradient clipping needs.
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct AdamStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;  // 1-based, for bias correction
  double gradient_scale = 1;
};

// Updates `weight` and both moments in place.
template <typename T>
void adam_update(const AdamStep& step, std::int64_t count, const T* gradient, T* weight, T* moment1,
                 T* moment2);

template <typename T>
T square_sum(std::int64_t count, const T* x);

}  // namespace trireme::runtime::cpu
