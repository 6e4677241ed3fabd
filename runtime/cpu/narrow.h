// Numbers of 8 bits as Micikevicius et al. 2022 (arXiv:2209.05433) define them, bit for bit: a
// sign, then E4M3 (4 bits of exponent, 3 of mantissa; no infinity, the largest is 448) or E5M2 (5
// and 2; the largest is 57344).
#pragma once

#include <cstdint>
#include <span>

namespace trireme::runtime::cpu {

enum class NarrowFormat : std::uint8_t { kE4m3, kE5m2 };

inline constexpr std::uint8_t kNarrowNan = 0x7f;  // in both

double largest_of(NarrowFormat format);

// To the nearest, ties to the even code; beyond the largest number, infinity too, the largest.
std::uint8_t narrowed(double value, NarrowFormat format);
double widened(std::uint8_t code, NarrowFormat format);

// The least power of two, from 2^-64 on, that many times the largest number is no less than any
// |value|; NaN where one is none or infinite.
template <typename T>
T narrow_scale(std::span<const T> values, NarrowFormat format);

}  // namespace trireme::runtime::cpu
