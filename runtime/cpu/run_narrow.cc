#include "runtime/cpu/run_narrow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "runtime/cpu/matmul.h"
#include "runtime/cpu/narrow.h"
#include "runtime/cpu/run_blocks.h"

namespace trireme::runtime::cpu {
namespace {

template <typename T>
NarrowFormat format_of(const Call<T>& c) {
  return c.dim("gradient") != 0 ? NarrowFormat::kE5m2 : NarrowFormat::kE4m3;
}

// Rows that are cast together, and where their columns begin in the transpose.
struct Piece {
  std::int64_t first = 0, rows = 0, column = 0;
};

// Of each expert.
template <typename T>
std::vector<Piece> pieces_of(const Call<T>& c, std::size_t counts) {
  const std::int64_t experts = c.dim("E");
  std::vector<Piece> pieces;
  Piece piece;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    piece.rows = 0;
    for (std::int64_t sender = 0; sender < c.dim("P"); ++sender) {
      piece.rows += c.tokens(counts)[sender * experts + expert];
    }
    pieces.push_back(piece);
    piece.first += piece.rows;
    piece.column += narrow_columns(piece.rows);
  }
  return pieces;
}

// Null, or where the codes go and their transpose, of so many columns.
struct Codes {
  std::uint8_t* rows = nullptr;
  std::uint8_t* turned = nullptr;
  std::int64_t columns = 0;
};

template <typename T>
void cast(const Call<T>& c, const Piece& piece, const Codes& to) {
  const std::int64_t width = c.dim("K");
  const T inverse = T(1) / *c.at(1);
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t at = (piece.first + i) * width + j;
      const std::uint8_t code = narrowed(c.at(0)[at] * inverse, format_of(c));
      if (to.rows != nullptr) {
        to.rows[at] = code;
      }
      if (to.turned != nullptr) {
        to.turned[j * to.columns + piece.column + i] = code;
      }
    }
  }
}

template <typename T>
void cast_experts(const Call<T>& c, const Codes& to) {
  for (const Piece& piece : pieces_of(c, 2)) {
    cast(c, piece, to);
    const std::int64_t more = narrow_columns(piece.rows) - piece.rows;
    for (std::int64_t j = 0; to.turned != nullptr && j < c.dim("K"); ++j) {
      std::fill_n(to.turned + j * to.columns + piece.column + piece.rows, more, std::uint8_t{0});
    }
  }
}

// A power of two times eight bits is exact in any T, unless it is out of range.
template <typename T>
std::vector<T> numbers(const std::uint8_t* codes, std::int64_t count, T scale,
                       NarrowFormat format) {
  constexpr std::size_t kCodes = 256;
  std::array<T, kCodes> of_code{};
  for (std::size_t code = 0; code < kCodes; ++code) {
    of_code[code] = static_cast<T>(widened(static_cast<std::uint8_t>(code), format)) * scale;
  }
  std::vector<T> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = of_code[codes[i]];
  }
  return result;
}

// Columns [first, first + count) of rows of `width`.
template <typename T>
std::vector<T> columns_of(const std::vector<T>& whole, std::int64_t width, std::int64_t first,
                          std::int64_t count) {
  std::vector<T> part;
  for (auto row = whole.begin(); row != whole.end(); row += width) {
    part.insert(part.end(), row + first, row + first + count);
  }
  return part;
}

template <typename T>
void multiply_experts(const Call<T>& c) {
  const std::int64_t m = c.dim("m");
  const std::int64_t n = c.dim("n");
  const std::int64_t k = c.dim("k");
  const std::vector<T> a = numbers<T>(c.codes(0), c.count(0), *c.at(1), format_of(c));
  const std::vector<T> b = numbers<T>(c.codes(2), c.count(2), *c.at(3), NarrowFormat::kE4m3);
  const bool summed = c.dim("summed") != 0;
  std::int64_t expert = 0;
  for (const Piece& piece : pieces_of(c, 5)) {
    if (summed) {
      const std::int64_t width = c.count(0) / m;
      const std::vector<T> a_part = columns_of(a, width, piece.column, piece.rows);
      const std::vector<T> b_part = columns_of(b, width, piece.column, piece.rows);
      matmul<T>({.m = m, .n = n, .k = piece.rows, .transpose_b = true}, a_part.data(),
                b_part.data(), c.at(4) + expert * m * n, c.dim("accumulate") != 0);
    } else {
      const bool gradient = c.dim("gradient") != 0;  // the experts' transposes are side by side
      const std::vector<T> b_part =
          gradient ? columns_of(b, c.dim("E") * k, expert * k, k)
                   : std::vector<T>(b.begin() + expert * n * k, b.begin() + (expert + 1) * n * k);
      matmul<T>({.m = piece.rows, .n = n, .k = k, .transpose_b = true}, a.data() + piece.first * k,
                b_part.data(), c.at(4) + piece.first * n, false);
    }
    ++expert;
  }
}

template <typename T>
void multiply(const Call<T>& c) {
  const std::int64_t m = c.dim("m");
  const std::int64_t n = c.dim("n");
  const std::int64_t k = c.dim("k");
  const std::vector<T> a = numbers<T>(c.codes(0), m * k, *c.at(1), format_of(c));
  const std::vector<T> b = numbers<T>(c.codes(2), n * k, *c.at(3), NarrowFormat::kE4m3);
  matmul<T>({.m = m, .n = n, .k = k, .transpose_a = false, .transpose_b = true}, a.data(), b.data(),
            c.at(4), c.dim("accumulate") != 0);
}

// With delayed scaling: `rows` of them are cast, whose largest magnitude is noted beside.
template <typename T>
void note_largest(const Call<T>& c, std::size_t operand, std::int64_t rows) {
  T& most = *c.at(operand);
  for (const T value : std::span<const T>(c.at(0), static_cast<std::size_t>(rows * c.dim("K")))) {
    most = std::isnan(value) ? std::numeric_limits<T>::infinity() : std::max(most, std::abs(value));
  }
}

template <typename T>
void find_delayed_scales(const Call<T>& c) {
  const std::int64_t tensors = c.dim("T");
  for (std::int64_t t = 0; t < tensors; ++t) {
    T most = 0;
    for (std::int64_t step = 0; step < c.dim("N"); ++step) {
      most = std::max(most, c.at(0)[step * tensors + t]);
    }
    const auto format = t < c.dim("G") ? NarrowFormat::kE4m3 : NarrowFormat::kE5m2;
    const bool known = most > 0 && std::isfinite(most);
    T* scale = c.at(1) + 4 * t;
    std::fill_n(scale, 4, T(0));
    *scale = known ? most / static_cast<T>(largest_of(format)) : T(1);
  }
  T* history = c.at(0);
  std::copy_backward(history, history + (c.dim("N") - 1) * tensors, history + c.dim("N") * tensors);
  std::fill_n(history, tensors, T(0));
}

template <typename T>
void run_delayed(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kDelayedScales) {
    find_delayed_scales(c);
  } else if (kernel == Kernel::kDelayedCast || kernel == Kernel::kDelayedBoth) {
    note_largest(c, 2, c.dim("M"));
    cast(c, {.rows = c.dim("M")},
         {.rows = c.codes(3),
          .turned = kernel == Kernel::kDelayedBoth ? c.codes(4) : nullptr,
          .columns = c.dim("M")});
  } else {
    const bool both = kernel == Kernel::kExpertDelayedBoth;
    const Piece last = pieces_of(c, 2).back();
    note_largest(c, 3, last.first + last.rows);
    cast_experts(c, {.rows = c.codes(4),
                     .turned = both ? c.codes(5) : nullptr,
                     .columns = both ? c.count(5) / c.dim("K") : 0});
  }
}

template <typename T>
void run_expert_narrow(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kExpertNarrowMatmul) {
    multiply_experts(c);
  } else if (kernel == Kernel::kExpertNarrowScale) {
    const Piece last = pieces_of(c, 1).back();
    const auto count = static_cast<std::size_t>((last.first + last.rows) * c.dim("K"));
    *c.at(2) = narrow_scale<T>(std::span<const T>(c.at(0), count), format_of(c));
  } else if (kernel == Kernel::kExpertNarrowCast) {
    cast_experts(c, {.rows = c.codes(3)});
  } else {
    const bool both = kernel == Kernel::kExpertNarrowBoth;
    const std::size_t turned = both ? 4 : 3;
    cast_experts(c, {.rows = both ? c.codes(3) : nullptr,
                     .turned = c.codes(turned),
                     .columns = c.count(turned) / c.dim("K")});
  }
}

}  // namespace

template <typename T>
void run_narrow(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kNarrowScale) {
    const std::span<const T> values(c.at(0), static_cast<std::size_t>(c.dim("N")));
    *c.at(1) = narrow_scale<T>(values, format_of(c));
  } else if (kernel == Kernel::kNarrowCast) {
    cast(c, {.rows = c.dim("M")}, {.rows = c.codes(2)});
  } else if (kernel == Kernel::kNarrowTurned) {
    cast(c, {.rows = c.dim("M")}, {.turned = c.codes(2), .columns = c.dim("M")});
  } else if (kernel == Kernel::kNarrowBoth) {
    cast(c, {.rows = c.dim("M")},
         {.rows = c.codes(2), .turned = c.codes(3), .columns = c.dim("M")});
  } else if (kernel == Kernel::kNarrowMatmul) {
    multiply(c);
  } else if (kernel >= Kernel::kBlockCast && kernel <= Kernel::kBlockMatmul) {
    run_blocks(c, kernel);
  } else if (kernel >= Kernel::kDelayedScales && kernel <= Kernel::kExpertDelayedBoth) {
    run_delayed(c, kernel);
  } else {
    run_expert_narrow(c, kernel);
  }
}

template void run_narrow<float>(const Call<float>&, Kernel);
template void run_narrow<double>(const Call<double>&, Kernel);

}  // namespace trireme::runtime::cpu
