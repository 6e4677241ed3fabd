// Numbers of 8 bits against the tables of Micikevicius et al. 2022 (arXiv:2209.05433), and against
// every number between two neighbours.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/cpu/narrow.h"

namespace trireme::runtime::cpu {
namespace {

constexpr auto kE4m3 = NarrowFormat::kE4m3;
constexpr auto kE5m2 = NarrowFormat::kE5m2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Known {
  NarrowFormat format;
  std::uint8_t code;
  double value;
};

TEST(Narrow, CodesAreTheNumbersOfTheFormats) {
  const Known known[] = {
      {kE4m3, 0x00, 0},                      // zero
      {kE4m3, 0x01, std::ldexp(1, -9)},      // least subnormal
      {kE4m3, 0x07, std::ldexp(0.875, -6)},  // largest subnormal
      {kE4m3, 0x08, std::ldexp(1, -6)},      // least normal
      {kE4m3, 0x38, 1},                      // bias 7
      {kE4m3, 0x39, 1.125},
      {kE4m3, 0xc0, -2},
      {kE4m3, 0x7e, 448},  // largest: 1.75 x 2^8
      {kE4m3, 0xfe, -448},
      {kE5m2, 0x01, std::ldexp(1, -16)},
      {kE5m2, 0x03, std::ldexp(0.75, -14)},
      {kE5m2, 0x04, std::ldexp(1, -14)},
      {kE5m2, 0x3c, 1},      // bias 15
      {kE5m2, 0x7b, 57344},  // 1.75 x 2^15
      {kE5m2, 0xbd, -1.25},
  };
  for (const Known& one : known) {
    EXPECT_EQ(widened(one.code, one.format), one.value) << int{one.code};
    EXPECT_EQ(narrowed(one.value, one.format), one.code) << one.value;
  }
  EXPECT_TRUE(std::isnan(widened(0x7f, kE4m3)));
  EXPECT_TRUE(std::isnan(widened(0xff, kE4m3)));
  EXPECT_EQ(widened(0x7c, kE5m2), kInfinity);
  EXPECT_EQ(widened(0xfc, kE5m2), -kInfinity);
  for (const int code : {0x7d, 0x7e, 0x7f}) {
    EXPECT_TRUE(std::isnan(widened(static_cast<std::uint8_t>(code), kE5m2)));
  }
  EXPECT_EQ(largest_of(kE4m3), 448);
  EXPECT_EQ(largest_of(kE5m2), 57344);
}

TEST(Narrow, NumbersGoToTheNearestCodeAndTiesToTheEvenOne) {
  for (const NarrowFormat format : {kE4m3, kE5m2}) {
    const int largest = format == kE4m3 ? 0x7e : 0x7b;
    for (int code = 0; code < largest; ++code) {
      const double low = widened(static_cast<std::uint8_t>(code), format);
      const double high = widened(static_cast<std::uint8_t>(code + 1), format);
      const double middle = (low + high) / 2;
      ASSERT_LT(low, high);
      EXPECT_EQ(narrowed(low, format), code);
      EXPECT_EQ(narrowed(std::nextafter(middle, 0), format), code) << middle;
      EXPECT_EQ(narrowed(std::nextafter(middle, kInfinity), format), code + 1) << middle;
      EXPECT_EQ(narrowed(middle, format), code % 2 == 0 ? code : code + 1) << middle;
      EXPECT_EQ(narrowed(-middle, format), 0x80 + (code % 2 == 0 ? code : code + 1));
    }
  }
}

TEST(Narrow, WhatIsBeyondTheLargestIsTheLargestAndNoNumberStaysNone) {
  for (const double beyond : {449.0, 1e30, kInfinity}) {
    EXPECT_EQ(narrowed(beyond, kE4m3), 0x7e);
    EXPECT_EQ(narrowed(-beyond, kE4m3), 0xfe);
  }
  EXPECT_EQ(narrowed(57345, kE5m2), 0x7b);
  EXPECT_EQ(narrowed(-kInfinity, kE5m2), 0xfb);
  EXPECT_EQ(narrowed(std::nan(""), kE4m3), kNarrowNan);
  EXPECT_EQ(narrowed(std::nan(""), kE5m2), kNarrowNan);
  EXPECT_EQ(narrowed(-0.0, kE4m3), 0x80);
  EXPECT_EQ(narrowed(1e-300, kE4m3), 0x00);
}

template <typename T>
T scale_of(const std::vector<T>& values, NarrowFormat format) {
  return narrow_scale<T>(std::span<const T>(values), format);
}

TEST(Narrow, AScaleIsTheLeastPowerOfTwoThatTheLargestFitsUnder) {
  EXPECT_EQ(scale_of<float>({1, -448}, kE4m3), 1);
  EXPECT_EQ(scale_of<float>({std::nextafter(448.0F, 1e9F)}, kE4m3), 2);
  EXPECT_EQ(scale_of<float>({-224, 3}, kE4m3), 0.5F);
  EXPECT_EQ(scale_of<double>({std::nextafter(224.0, 1e9)}, kE4m3), 1);
  EXPECT_EQ(scale_of<double>({57344}, kE5m2), 1);
  EXPECT_EQ(scale_of<double>({1e-6}, kE5m2), std::ldexp(1, -35));
  EXPECT_EQ(scale_of<float>({0, 0}, kE4m3), std::ldexp(1.0F, -64));
  EXPECT_EQ(scale_of<float>({1e-30F}, kE4m3), std::ldexp(1.0F, -64));
  EXPECT_TRUE(std::isnan(scale_of<float>({1, std::nanf("")}, kE4m3)));
  EXPECT_TRUE(std::isnan(scale_of<double>({kInfinity, 1}, kE5m2)));
}

}  // namespace
}  // namespace trireme::runtime::cpu
