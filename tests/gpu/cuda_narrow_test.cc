// Scales, codes and transposes of 8 bits on the GPU against the reference, bit for bit; and
// products of such codes.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/gpu/cuda_narrow.h"

namespace trireme::runtime::cuda {
namespace {

TEST_F(CudaNarrow, CodesAndScalesAreTheReferencesBitForBit) {
  for (const auto& [rows, columns] : {std::pair{16, 16}, {128, 128}, {144, 272}, {400, 1040}}) {
    for (const std::int64_t gradient : {0, 1}) {
      for (const float deviation : {1e-12F, 3e-5F, 1.0F, 1e6F}) {
        Operand x = random(static_cast<std::size_t>(rows * columns), deviation);
        cast(x, rows, columns, gradient);
      }
    }
  }
}

TEST_F(CudaNarrow, NoNumberMakesAScaleThatIsNone) {
  Operand x = random(256, 1);
  x.numbers[77] = std::nanf("");
  x.upload();
  Operand scale(kM, 1);
  run(Kernel::kNarrowScale, {256, 0}, {&x, &scale});
  EXPECT_TRUE(std::isnan(scale.download<float>().front()));
}

// The units' own accumulator holds some 14 bits of a sum.
TEST_F(CudaNarrow, ProductsAreThoseOfTheReference) {
  constexpr std::int64_t m = 144;
  constexpr std::int64_t n = 272;
  constexpr std::int64_t k = 400;
  for (const std::int64_t gradient : {0, 1}) {
    Operand a = random(m * k, 1e-4F);
    Operand b = random(n * k, 20);
    Cast first = cast(a, m, k, gradient);
    Cast second = cast(b, n, k, 0);
    for (const ElementType type : {kC, kM}) {
      for (const std::int64_t adds : {0, 1}) {
        Operand c(type, m * n);
        run(Kernel::kNarrowMatmul, {m, n, k, 0, gradient},
            {&first.rows, &first.scale, &second.rows, &second.scale, &c});
        if (adds != 0) {
          run(Kernel::kNarrowMatmul, {m, n, k, 1, gradient},
              {&first.rows, &first.scale, &second.rows, &second.scale, &c});
        }
        SCOPED_TRACE(gradient);
        expect_near(c);
      }
    }
  }
}

// Two senders and three experts, one of which gets nothing; and forty of one, in tiles of 128 rows.
std::vector<std::vector<std::int32_t>> counts_of_rows(std::mt19937& engine) {
  std::vector<std::int32_t> many;
  for (int expert = 0; expert < 40; ++expert) {
    many.push_back(expert % 7 == 3 ? 0 : static_cast<std::int32_t>(engine() % 300));
  }
  return {{5, 0, 33, 130, 0, 2}, many};
}

std::size_t all_of(const std::vector<std::int32_t>& counts) {
  return static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0));
}

TEST_F(CudaNarrow, RowsOfExpertsAreCastAsTheReferenceDoes) {
  for (const std::vector<std::int32_t>& given : counts_of_rows(engine)) {
    Operand counts(given);
    for (const std::size_t columns : {16U, 144U, 272U}) {
      for (const std::int64_t gradient : {0, 1}) {
        Operand x = random((all_of(given) + 30) * columns, 1e-3F);
        for (std::size_t i = all_of(given) * columns; i < x.count(); ++i) {
          x.numbers[i] = std::nanf("");  // nobody's
        }
        x.upload();
        cast_experts(x, counts, given.size() == 6 ? 2 : 1, static_cast<std::int64_t>(columns),
                     gradient);
      }
    }
  }
}

TEST_F(CudaNarrow, ProductsOfExpertsAreThoseOfTheReference) {
  constexpr std::int64_t out = 144;
  constexpr std::int64_t in = 272;
  for (const std::vector<std::int32_t>& given : counts_of_rows(engine)) {
    Operand counts(given);
    const std::int64_t senders = given.size() == 6 ? 2 : 1;
    const auto experts = static_cast<std::int64_t>(given.size()) / senders;
    const auto rows = static_cast<std::int64_t>(all_of(given));
    const std::size_t room = all_of(given) + 30;
    Operand x = random(room * in, 1e-4F);
    Operand dy = random(room * out, 20);
    Operand weight = random(static_cast<std::size_t>(experts * out * in), 1);
    Cast inputs = cast_experts(x, counts, senders, in, 0);
    Cast gradients = cast_experts(dy, counts, senders, out, 1);
    Cast weights = cast(weight, experts * out, in, 0);
    Operand y(kC, room * out);
    run(Kernel::kExpertNarrowMatmul, {rows, out, in, 0, 0, 0, senders, experts},
        {&inputs.rows, &inputs.scale, &weights.rows, &weights.scale, &y, &counts});
    expect_near(y);
    Operand dx(kC, room * in);
    run(Kernel::kExpertNarrowMatmul, {rows, in, out, 0, 0, 1, senders, experts},
        {&gradients.rows, &gradients.scale, &weights.turned, &weights.scale, &dx, &counts});
    expect_near(dx);
    Operand dw(kM, static_cast<std::size_t>(experts * out * in));
    for (const std::int64_t adds : {0, 1}) {
      run(Kernel::kExpertNarrowMatmul, {out, in, rows, 1, adds, 1, senders, experts},
          {&gradients.turned, &gradients.scale, &inputs.turned, &inputs.scale, &dw, &counts});
      expect_near(dw);
    }
  }
}

}  // namespace
}  // namespace trireme::runtime::cuda
