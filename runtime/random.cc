#include "runtime/random.h"

#include <cmath>
#include <numbers>

namespace trireme::runtime {
namespace {
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

std::uint64_t finalise(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}
}  // namespace

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = finalise(seed + kGolden);
  for (const char c : name) {
    key = finalise((key ^ static_cast<unsigned char>(c)) + kGolden);
  }
  return key;
}

std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return finalise(key + kGolden * (index + 1));
}

double random_uniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(random_bits(key, index) >> 11U) * 0x1.0p-53;
}

double random_normal(std::uint64_t key, std::uint64_t index) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random_uniform(key, 2 * index)));
  return radius * std::cos(2.0 * std::numbers::pi * random_uniform(key, 2 * index + 1));
}

}  // namespace trireme::runtime
