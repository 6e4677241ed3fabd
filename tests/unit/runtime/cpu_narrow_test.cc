// Numbers of 8 bits against the tables of Micikevicius et al. 2022 (arXiv:2209.05433), and against
// every number between two neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "runtime/cpu/compute.h"
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

// One op on numbers and codes of the host.
class OneOp {
 public:
  OneOp(Kernel kernel, std::initializer_list<std::int64_t> dims) : work_{kernel, {}, {}, {}} {
    std::ranges::copy(dims, work_.dims.begin());
  }
  OneOp& with(std::vector<float>& numbers, ElementType type = ElementType::kMaster) {
    return put(numbers.data(), numbers.size(), type);
  }
  OneOp& with(std::vector<std::uint8_t>& codes) {
    return put(codes.data(), codes.size(), ElementType::kNarrow);
  }
  void run() const {
    run_kernel<float>({.program = &program_, .rank = Rank(0), .settings = {}}, work_, views_);
  }

 private:
  OneOp& put(void* data, std::size_t count, ElementType type) {
    View view{};
    view.data = data;
    view.count = static_cast<std::int64_t>(count);
    view.type = type;
    views_.push_back(view);
    return *this;
  }

  StepProgram program_;
  Work work_;
  std::vector<View> views_;
};

// Transformer Engine's DelayedScaling with margin 0 multiplies by 448 (57344) over the largest of
// the history, so that this many of a code's is the number: and by 1 where there is none yet.
TEST(DelayedScales, AreTheLargestOfTheHistoryOverTheFormatsLargest) {
  std::vector<float> history = {3,     0, 2,
                                57344,  //
                                1344,  0, 2,
                                7168,  //
                                5,     0, std::numeric_limits<float>::infinity(),
                                1};
  std::vector<float> scales(16, -1);
  OneOp(Kernel::kDelayedScales, {4, 3, 3}).with(history).with(scales).run();
  EXPECT_EQ(scales, (std::vector<float>{3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}));
  // The oldest row is forgotten, the new one is empty.
  EXPECT_EQ(history, (std::vector<float>{0, 0, 0, 0, 3, 0, 2, 57344, 1344, 0, 2, 7168}));
  OneOp(Kernel::kDelayedScales, {4, 3, 3}).with(history).with(scales).run();
  EXPECT_EQ(scales, (std::vector<float>{3, 0, 0, 0, 1, 0, 0, 0, 2.0F / 448, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(DelayedScales, CastsSaturateAndNoteWhatTheySaw) {
  std::vector<float> x = {1, -1344, 1, 3};
  std::vector<float> scale = {2};
  std::vector<float> largest = {100};
  std::vector<std::uint8_t> codes(4);
  std::vector<std::uint8_t> turned(4);
  OneOp(Kernel::kDelayedBoth, {2, 2, 0})
      .with(x, ElementType::kCompute)
      .with(scale)
      .with(largest)
      .with(codes)
      .with(turned)
      .run();
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0x30, 0xfe, 0x30, 0x3c}));  // 0.5, -448, 0.5, 1.5
  EXPECT_EQ(turned, (std::vector<std::uint8_t>{0x30, 0x30, 0xfe, 0x3c}));
  EXPECT_EQ(largest, std::vector<float>{1344});
}

// Rows of 256: a largest of 896 in the first block of the first row, of 1 elsewhere.
TEST(BlockScales, EachBlockHasItsOwnAndATransposeHasItsOwnBlocks) {
  constexpr std::size_t rows = 128;
  constexpr std::size_t columns = 256;
  std::vector<float> x(rows * columns, 1);
  x[3] = 896;
  std::vector<std::uint8_t> codes(x.size());
  std::vector<std::uint8_t> turned(x.size());
  const float one = std::ldexp(1.0F, -8);  // 448 / 256 is more than 1, 448 / 512 less
  for (const bool square : {false, true}) {
    std::vector<float> scales(static_cast<std::size_t>(block_scales(rows, columns, square)), -1);
    std::vector<float> turned_scales(static_cast<std::size_t>(block_scales(columns, rows, square)),
                                     -1);
    OneOp(Kernel::kBlockBoth, {rows, columns, square ? 1 : 0})
        .with(x, ElementType::kCompute)
        .with(codes)
        .with(scales)
        .with(turned)
        .with(turned_scales)
        .run();
    EXPECT_EQ(codes[0], 0x30);                        // 1 of 2
    EXPECT_EQ(codes[3], 0x7e);                        // 896 of 2
    EXPECT_EQ(codes[128], 0x78);                      // 1 of 2^-8
    EXPECT_EQ(codes[columns], square ? 0x30 : 0x78);  // of the second row
    EXPECT_EQ(turned[3 * rows], 0x7e);
    EXPECT_EQ(turned[0], square ? 0x30 : 0x78);
    if (square) {  // rows of whole four
      EXPECT_EQ(scales, (std::vector<float>{2, one, 0, 0}));
      EXPECT_EQ(turned_scales, (std::vector<float>{2, 0, 0, 0, one, 0, 0, 0}));
    } else {  // by block, then by row
      std::vector<float> expected(2 * rows, one);
      expected[0] = 2;
      EXPECT_EQ(scales, expected);
      std::vector<float> of_columns(columns, one);
      of_columns[3] = 2;
      EXPECT_EQ(turned_scales, of_columns);
    }
  }
}

TEST(BlockScales, ProductsAreThoseOfTheNumbersThatCodesStandFor) {
  std::vector<std::uint8_t> a(128 * 128, 0x38);  // 1
  std::vector<std::uint8_t> b(128 * 128, 0x40);  // 2
  std::vector<float> a_scales(128, 1);
  a_scales[5] = 4;
  std::vector<float> lines(128, 1);
  lines[7] = 8;
  std::vector<float> squares = {0.5F, 0, 0, 0};
  for (const bool square : {false, true}) {
    std::vector<float> c(128 * 128, 3);
    OneOp(Kernel::kBlockMatmul, {128, 128, 128, 1, square ? 1 : 0})
        .with(a)
        .with(a_scales)
        .with(b)
        .with(square ? squares : lines)
        .with(c)
        .run();
    EXPECT_EQ(c[0], 3 + (square ? 128 : 256));
    EXPECT_EQ(c[5 * 128 + 7], 3 + (square ? 512 : 256 * 4 * 8));
  }
}

}  // namespace
}  // namespace trireme::runtime::cpu
