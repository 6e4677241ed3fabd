// Strong units. A quantity is constructed explicitly, and only the operators that make sense exist:
// bytes over a bandwidth is a time, bytes plus seconds does not compile.
#pragma once

#include <compare>
#include <cstdint>

namespace trireme {

template <typename Tag, typename Rep>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value + b.value);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value - b.value);
  }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
  // The ratio of two quantities of one kind is a plain number.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
  constexpr Quantity& operator+=(Quantity b) {
    value += b.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity b) {
    value -= b.value;
    return *this;
  }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Elements = Quantity<struct ElementsTag, std::int64_t>;  // a count of numbers, not of bytes
using Flop = Quantity<struct FlopTag, double>;  // a count; a step of a 1T model is 2.4e19
using FlopPerSecond = Quantity<struct FlopPerSecondTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;

// The simulator's clock: integer picoseconds, a point and a difference. Range +-106 days.
using SimDuration = Quantity<struct SimDurationTag, std::int64_t>;
struct SimTime {
  std::int64_t picoseconds = 0;
  friend constexpr auto operator<=>(SimTime, SimTime) = default;
  friend constexpr SimTime operator+(SimTime t, SimDuration d) { return {t.picoseconds + d.value}; }
  friend constexpr SimDuration operator-(SimTime a, SimTime b) {
    return SimDuration(a.picoseconds - b.picoseconds);
  }
};

constexpr Seconds operator/(Bytes n, BytesPerSecond rate) {
  return Seconds(static_cast<double>(n.value) / rate.value);
}
constexpr Seconds operator/(Flop n, FlopPerSecond rate) {
  return Seconds(n.value / rate.value);
}
constexpr BytesPerSecond operator/(Bytes n, Seconds t) {
  return BytesPerSecond(static_cast<double>(n.value) / t.value);
}
constexpr FlopPerSecond operator/(Flop n, Seconds t) {
  return FlopPerSecond(n.value / t.value);
}

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double to_gib(Bytes n) {
  return static_cast<double>(n.value) / kGiB;
}
constexpr Seconds to_seconds(SimDuration d) {
  return Seconds(static_cast<double>(d.value) * 1e-12);
}
// Rounds up to the next picosecond, so that a simulated op never ends before its model says.
constexpr SimDuration to_sim_duration(Seconds t) {
  const double picoseconds = t.value * 1e12;
  const auto whole = static_cast<std::int64_t>(picoseconds);
  return SimDuration(static_cast<double>(whole) < picoseconds ? whole + 1 : whole);
}

}  // namespace trireme
