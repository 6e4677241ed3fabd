#include "runtime/cpu/narrow.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::runtime::cpu {
namespace {

constexpr int kLeastScale = -64;
constexpr std::uint8_t kSign = 0x80;

struct Layout {
  int mantissa_bits, bias;
  std::uint8_t largest;   // code
  std::uint8_t infinity;  // code; of E4M3 the one NaN
};

Layout layout_of(NarrowFormat format) {
  return format == NarrowFormat::kE4m3 ? Layout{3, 7, 0x7e, 0x7f} : Layout{2, 15, 0x7b, 0x7c};
}

}  // namespace

double largest_of(NarrowFormat format) {
  return widened(layout_of(format).largest, format);
}

std::uint8_t narrowed(double value, NarrowFormat format) {
  if (std::isnan(value)) {
    return kNarrowNan;
  }
  const Layout layout = layout_of(format);
  const std::uint8_t sign = std::signbit(value) ? kSign : 0;
  const double size = std::abs(value);
  if (size >= largest_of(format)) {
    return sign | layout.largest;
  }
  // Below the least normal number steps are as wide as its own.
  const int least = 1 - layout.bias;
  const int exponent = size == 0 ? least : std::max(least, std::ilogb(size));
  const double steps = std::nearbyint(std::ldexp(size, layout.mantissa_bits - exponent));
  // The leading bit of a normal number's steps is one more of the exponent; so is a carry.
  const int code =
      ((exponent - least) << static_cast<unsigned>(layout.mantissa_bits)) + static_cast<int>(steps);
  return static_cast<std::uint8_t>(sign | code);
}

double widened(std::uint8_t code, NarrowFormat format) {
  const Layout layout = layout_of(format);
  const int size = code & ~kSign;
  const double sign = (code & kSign) != 0 ? -1 : 1;
  if (size >= layout.infinity) {
    return format == NarrowFormat::kE5m2 && size == layout.infinity
               ? sign * std::numeric_limits<double>::infinity()
               : std::numeric_limits<double>::quiet_NaN();
  }
  const int normal = 1 << static_cast<unsigned>(layout.mantissa_bits);
  const int exponent = size / normal;
  const int steps = size % normal + (exponent > 0 ? normal : 0);
  return sign * std::ldexp(steps, std::max(exponent, 1) - layout.bias - layout.mantissa_bits);
}

template <typename T>
T narrow_scale(std::span<const T> values, NarrowFormat format) {
  T most = 0;
  for (const T value : values) {
    if (!std::isfinite(value)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
    most = std::max(most, std::abs(value));
  }
  if (most == 0) {
    return std::ldexp(T(1), kLeastScale);
  }
  int of_most = 0;
  int of_largest = 0;
  const double most_part = std::frexp(static_cast<double>(most), &of_most);
  const double largest_part = std::frexp(largest_of(format), &of_largest);
  const int exponent = of_most - of_largest + (most_part > largest_part ? 1 : 0);
  return std::ldexp(T(1), std::max(kLeastScale, exponent));
}

template float narrow_scale<float>(std::span<const float>, NarrowFormat);
template double narrow_scale<double>(std::span<const double>, NarrowFormat);

}  // namespace trireme::runtime::cpu
