#include "models/layer_share.h"

#include <vector>

namespace trireme::models {
namespace {

using Series = std::vector<double>;  // coefficients of a polynomial cut behind its last

Series product(const Series& a, const Series& b) {
  Series result(a.size(), 0.0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; i + j < a.size(); ++j) {
      result[i + j] += a[i] * b[j];
    }
  }
  return result;
}

// Chance that of `chosen` experts no rank has more than `most`: chosen! times the coefficient of
// x^chosen in the power to the ranks of the sum of (x / ranks)^i / i! up to `most`.
double chance_of_most(std::int64_t most, std::int64_t chosen, std::int64_t ranks) {
  Series base(static_cast<std::size_t>(chosen) + 1, 0.0);
  double term = 1, factorial = 1;
  for (std::int64_t i = 0; i <= chosen; ++i) {
    if (i > 0) {
      term /= static_cast<double>(ranks * i);
      factorial *= static_cast<double>(i);
    }
    base[static_cast<std::size_t>(i)] = i <= most ? term : 0;
  }
  Series power(base.size(), 0.0);
  power[0] = 1;
  for (std::int64_t left = ranks; left > 0; left /= 2) {
    power = left % 2 == 1 ? product(power, base) : power;
    base = product(base, base);
  }
  return factorial * power.back();
}

}  // namespace

double same_experts_load(std::int64_t chosen, std::int64_t ranks) {
  double together = 0;
  for (std::int64_t most = 0; most < chosen; ++most) {
    together += 1 - chance_of_most(most, chosen, ranks);
  }
  return together * static_cast<double>(ranks) / static_cast<double>(chosen);
}

}  // namespace trireme::models
