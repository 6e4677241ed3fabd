// Counter-based random numbers: value i of stream (seed, name) is a pure function, so that every
// layout, rank and backend draws the same number for the same element.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme::runtime {

// The key of a named stream under a seed.
std::uint64_t random_key(std::uint64_t seed, std::string_view name);
// 64 uniform bits of element `index` (SplitMix64's finaliser, Steele et al. 2014).
std::uint64_t random_bits(std::uint64_t key, std::uint64_t index);
// Uniform in [0, 1).
double random_uniform(std::uint64_t key, std::uint64_t index);
// Standard normal (Box-Muller).
double random_normal(std::uint64_t key, std::uint64_t index);

}  // namespace trireme::runtime
