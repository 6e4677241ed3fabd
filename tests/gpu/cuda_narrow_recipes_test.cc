// Scales of earlier steps and of blocks of 128 on the GPU against the reference, bit for bit; and
// products by blocks.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/gpu/cuda_narrow.h"

namespace trireme::runtime::cuda {
namespace {

// Magnitudes of four steps of 40 tensors, of which the last 13 are gradients; one step's first
// tensor was infinite, the second never had any.
TEST_F(CudaNarrow, ScalesOfEarlierStepsAreTheReferences) {
  constexpr std::size_t tensors = 40;
  for (const std::size_t steps : {1U, 4U, 100U}) {
    Operand history(kM, steps * tensors);
    std::lognormal_distribution<float> magnitude(0, 5);
    for (float& value : history.numbers) {
      value = magnitude(engine);
    }
    history.numbers[0] = std::numeric_limits<float>::infinity();
    for (std::size_t step = 0; step < steps; ++step) {
      history.numbers[step * tensors + 1] = 0;
    }
    EXPECT_EQ(cudaMemcpy(history.device.data(), history.numbers.data(), history.device.bytes(),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
    Operand scales(kM, 4 * tensors);
    run(Kernel::kDelayedScales, {tensors, static_cast<std::int64_t>(steps), 27},
        {&history, &scales});
    EXPECT_EQ(history.download<float>(), history.numbers);
    EXPECT_EQ(scales.download<float>(), scales.numbers);
    EXPECT_EQ(scales.numbers[0], 1);
    EXPECT_EQ(scales.numbers[4], 1);
  }
}

Operand one_number(float value) {
  Operand made(kM, 1);
  made.numbers[0] = value;
  EXPECT_EQ(cudaMemcpy(made.device.data(), &value, sizeof(value), cudaMemcpyHostToDevice),
            cudaSuccess);
  return made;
}

// A scale of another time: much is beyond the largest number.
TEST_F(CudaNarrow, CastsWithAScaleOfEarlierStepsNoteTheLargestMagnitude) {
  for (const auto& [rows, columns] : {std::pair{16, 16}, {144, 272}, {400, 1040}}) {
    for (const std::int64_t gradient : {0, 1}) {
      Operand x = random(static_cast<std::size_t>(rows * columns), 3);
      Operand scale = one_number(0.0123F);
      for (const float noted : {0.0F, 1e9F}) {
        Operand largest = one_number(noted);
        Operand codes(kN, x.count());
        Operand turned(kN, x.count());
        run(Kernel::kDelayedCast, {rows, columns, gradient}, {&x, &scale, &largest, &codes});
        EXPECT_EQ(codes.download<std::uint8_t>(), codes.codes);
        EXPECT_EQ(largest.download<float>(), largest.numbers);
        run(Kernel::kDelayedBoth, {rows, columns, gradient},
            {&x, &scale, &largest, &codes, &turned});
        EXPECT_EQ(codes.download<std::uint8_t>(), codes.codes);
        EXPECT_EQ(turned.download<std::uint8_t>(), turned.codes);
        EXPECT_EQ(largest.download<float>(), largest.numbers);
        EXPECT_GE(largest.numbers[0], std::max(noted, 1.0F));
      }
    }
  }
}

TEST_F(CudaNarrow, ExpertsRowsNoteTheLargestMagnitudeOfThoseThatCame) {
  constexpr std::size_t columns = 144;
  Operand counts(std::vector<std::int32_t>{5, 0, 33, 130, 0, 2});
  Operand x = random((170 + 30) * columns, 3);
  for (std::size_t i = 170 * columns; i < x.count(); ++i) {
    x.numbers[i] = std::nanf("");  // nobody's
  }
  x.upload();
  const std::vector<std::int64_t> dims = {200, columns, 0, 2, 3};
  Operand scale = one_number(0.0123F);
  Operand largest = one_number(0);
  Operand codes(kN, x.count());
  Operand turned(kN, static_cast<std::size_t>(columns * narrow_width(200, 3)));
  run(Kernel::kExpertDelayedCast, dims, {&x, &scale, &counts, &largest, &codes});
  EXPECT_EQ(codes.download<std::uint8_t>(), codes.codes);
  EXPECT_EQ(largest.download<float>(), largest.numbers);
  run(Kernel::kExpertDelayedBoth, dims, {&x, &scale, &counts, &largest, &codes, &turned});
  EXPECT_EQ(codes.download<std::uint8_t>(), codes.codes);
  EXPECT_EQ(turned.download<std::uint8_t>(), turned.codes);
  EXPECT_EQ(largest.download<float>(), largest.numbers);
}

// [rows, columns] by blocks, each way alone and both at once.
struct Blocks {
  Operand rows, scales, turned, turned_scales;

  Blocks(std::int64_t m, std::int64_t k, bool square)
      : rows(kN, static_cast<std::size_t>(m * k)),
        scales(kM, static_cast<std::size_t>(block_scales(m, k, square))),
        turned(kN, static_cast<std::size_t>(m * k)),
        turned_scales(kM, static_cast<std::size_t>(block_scales(k, m, square))) {}
  void expect_same() const {
    EXPECT_EQ(rows.download<std::uint8_t>(), rows.codes);
    EXPECT_EQ(scales.download<float>(), scales.numbers);
    EXPECT_EQ(turned.download<std::uint8_t>(), turned.codes);
    EXPECT_EQ(turned_scales.download<float>(), turned_scales.numbers);
  }
};

TEST_F(CudaNarrow, BlocksAreTheReferencesBitForBit) {
  for (const auto& [rows, columns] : {std::pair{128, 128}, {128, 640}, {384, 256}, {640, 1152}}) {
    for (const std::int64_t square : {0, 1}) {
      for (const float deviation : {1e-12F, 1.0F, 1e6F}) {
        Operand x = random(static_cast<std::size_t>(rows * columns), deviation);
        Blocks both(rows, columns, square != 0);
        run(Kernel::kBlockBoth, {rows, columns, square},
            {&x, &both.rows, &both.scales, &both.turned, &both.turned_scales});
        both.expect_same();
        Blocks alone(rows, columns, square != 0);
        run(Kernel::kBlockCast, {rows, columns, square}, {&x, &alone.rows, &alone.scales});
        run(Kernel::kBlockTurned, {rows, columns, square},
            {&x, &alone.turned, &alone.turned_scales});
        alone.expect_same();
        EXPECT_EQ(alone.rows.codes, both.rows.codes);
        EXPECT_EQ(alone.turned_scales.numbers, both.turned_scales.numbers);
      }
    }
  }
}

// Lines by squares, as forward and the input's gradient are; lines by lines, as the weight's is. An
// inner extent of 5 blocks: rows of the squares' scales have 8.
TEST_F(CudaNarrow, ProductsByBlocksAreThoseOfTheReference) {
  constexpr std::int64_t m = 384;
  constexpr std::int64_t n = 256;
  for (const std::int64_t k : {128, 640}) {
    for (const std::int64_t square : {0, 1}) {
      Operand a = random(m * k, 1e-4F);
      Operand b = random(n * k, 20);
      Blocks first(m, k, false);
      Blocks second(n, k, square != 0);
      run(Kernel::kBlockCast, {m, k, 0}, {&a, &first.rows, &first.scales});
      run(Kernel::kBlockCast, {n, k, square}, {&b, &second.rows, &second.scales});
      for (const ElementType type : {kC, kM}) {
        Operand c(type, m * n);
        for (const std::int64_t adds : {0, 1}) {
          SCOPED_TRACE(k);
          run(Kernel::kBlockMatmul, {m, n, k, adds, square},
              {&first.rows, &first.scales, &second.rows, &second.scales, &c});
          expect_near(c);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::runtime::cuda
