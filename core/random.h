// Random numbers that are the same on every machine: value i of a stream is a pure function of the
// stream's key (SplitMix64; Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// OOPSLA 2014), so that every layout, rank and backend draws the same for the same element.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15ULL;

// SplitMix64's finaliser: a permutation of 64 bits that leaves no pattern. Also what hashes use.
constexpr std::uint64_t mixed_bits(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

// The key of a named stream under a seed.
std::uint64_t random_key(std::uint64_t seed, std::string_view name);

// 64 uniform bits of element `index`: output `index` of SplitMix64 seeded with `key`.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return mixed_bits(key + kGoldenGamma * (index + 1));
}
// Uniform in [0, 1).
constexpr double random_uniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<double>(random_bits(key, index) >> 11U) * 0x1.0p-53;
}
// Standard normal (Box-Muller).
double random_normal(std::uint64_t key, std::uint64_t index);

// A stream drawn from in order.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : key_(seed) {}
  std::uint64_t bits() { return random_bits(key_, next_++); }
  // Of 0 .. count - 1; 0 when there is none.
  template <typename Count>
  Count below(Count count) {
    return count <= 0 ? Count{0} : static_cast<Count>(bits() % static_cast<std::uint64_t>(count));
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

}  // namespace trireme
