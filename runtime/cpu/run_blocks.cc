#include "runtime/cpu/run_blocks.h"

#include <algorithm>
#include <vector>

#include "runtime/cpu/matmul.h"
#include "runtime/cpu/narrow.h"

namespace trireme::runtime::cpu {
namespace {

constexpr auto kFormat = NarrowFormat::kE4m3;

// A matrix [rows, columns] in codes, and its scales (core/kernels.h).
template <typename T>
struct Blocks {
  std::int64_t rows = 0, columns = 0;
  bool square = false;
  std::uint8_t* codes = nullptr;
  T* scales = nullptr;

  [[nodiscard]] T& scale(std::int64_t row, std::int64_t column) const {
    const std::int64_t block = column / kScaleBlock;
    return square ? scales[row / kScaleBlock * square_row(columns) + block]
                  : scales[block * rows + row];
  }
};

// `at(i, j)`: the number that row i and column j come from.
template <typename T, typename At>
void cast_blocks(const Blocks<T>& to, const At& at) {
  const std::int64_t height = to.square ? kScaleBlock : 1;
  std::fill_n(to.scales, block_scales(to.rows, to.columns, to.square), T(0));
  std::vector<T> block(static_cast<std::size_t>(height * kScaleBlock));
  for (std::int64_t row = 0; row < to.rows; row += height) {
    for (std::int64_t column = 0; column < to.columns; column += kScaleBlock) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        const auto place = static_cast<std::int64_t>(i);
        block[i] = at(row + place / kScaleBlock, column + place % kScaleBlock);
      }
      const T scale = narrow_scale<T>(block, kFormat);
      to.scale(row, column) = scale;
      for (std::size_t i = 0; i < block.size(); ++i) {
        const auto place = static_cast<std::int64_t>(i);
        to.codes[(row + place / kScaleBlock) * to.columns + column + place % kScaleBlock] =
            narrowed(block[i] / scale, kFormat);
      }
    }
  }
}

// From operand `first` on: codes, then scales.
template <typename T>
Blocks<T> blocks_at(const Call<T>& c, std::size_t first, std::int64_t rows, std::int64_t columns,
                    bool square) {
  return {rows, columns, square, c.codes(first), c.at(first + 1)};
}

template <typename T>
std::vector<T> numbers(const Blocks<T>& blocks) {
  std::vector<T> result(static_cast<std::size_t>(blocks.rows * blocks.columns));
  for (std::int64_t i = 0; i < blocks.rows; ++i) {
    for (std::int64_t j = 0; j < blocks.columns; ++j) {
      const auto at = static_cast<std::size_t>(i * blocks.columns + j);
      result[at] = static_cast<T>(widened(blocks.codes[at], kFormat)) * blocks.scale(i, j);
    }
  }
  return result;
}

template <typename T>
void multiply_blocks(const Call<T>& c) {
  const std::int64_t m = c.dim("m");
  const std::int64_t n = c.dim("n");
  const std::int64_t k = c.dim("k");
  const std::vector<T> a = numbers(blocks_at(c, 0, m, k, false));
  const std::vector<T> b = numbers(blocks_at(c, 2, n, k, c.dim("square") != 0));
  matmul<T>({.m = m, .n = n, .k = k, .transpose_a = false, .transpose_b = true}, a.data(), b.data(),
            c.at(4), c.dim("accumulate") != 0);
}

}  // namespace

template <typename T>
void run_blocks(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kBlockMatmul) {
    multiply_blocks(c);
    return;
  }
  const std::int64_t rows = c.dim("M");
  const std::int64_t columns = c.dim("K");
  const bool square = c.dim("square") != 0;
  const T* x = c.at(0);
  if (kernel != Kernel::kBlockTurned) {
    cast_blocks(blocks_at(c, 1, rows, columns, square),
                [&](std::int64_t i, std::int64_t j) { return x[i * columns + j]; });
  }
  if (kernel != Kernel::kBlockCast) {
    const std::size_t first = kernel == Kernel::kBlockBoth ? 3 : 1;
    cast_blocks(blocks_at(c, first, columns, rows, square),
                [&](std::int64_t i, std::int64_t j) { return x[j * columns + i]; });
  }
}

template void run_blocks<float>(const Call<float>&, Kernel);
template void run_blocks<double>(const Call<double>&, Kernel);

}  // namespace trireme::runtime::cpu
