#include "core/random.h"

#include <cmath>
#include <numbers>

namespace trireme {

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = mixed_bits(seed + kGoldenGamma);
  for (const char c : name) {
    key = mixed_bits((key ^ static_cast<unsigned char>(c)) + kGoldenGamma);
  }
  return key;
}

double random_normal(std::uint64_t key, std::uint64_t index) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random_uniform(key, 2 * index)));
  return radius * std::cos(2.0 * std::numbers::pi * random_uniform(key, 2 * index + 1));
}

}  // namespace trireme
