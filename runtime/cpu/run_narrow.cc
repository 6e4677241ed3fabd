#include "runtime/cpu/run_narrow.h"

#include <array>
#include <vector>

#include "runtime/cpu/matmul.h"
#include "runtime/cpu/narrow.h"

namespace trireme::runtime::cpu {
namespace {

template <typename T>
NarrowFormat format_of(const Call<T>& c) {
  return c.dim("gradient") != 0 ? NarrowFormat::kE5m2 : NarrowFormat::kE4m3;
}

// `rows`, `turned`: null, or where the codes go and their transpose.
template <typename T>
void cast(const Call<T>& c, std::uint8_t* rows, std::uint8_t* turned) {
  const std::int64_t height = c.dim("M");
  const std::int64_t width = c.dim("K");
  const double scale = *c.at(1);
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const double value = c.at(0)[i * width + j];
      const std::uint8_t code = narrowed(value / scale, format_of(c));
      if (rows != nullptr) {
        rows[i * width + j] = code;
      }
      if (turned != nullptr) {
        turned[j * height + i] = code;
      }
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

}  // namespace

template <typename T>
void run_narrow(const Call<T>& c, Kernel kernel) {
  if (kernel == Kernel::kNarrowScale) {
    const std::span<const T> values(c.at(0), static_cast<std::size_t>(c.dim("N")));
    *c.at(1) = narrow_scale<T>(values, format_of(c));
  } else if (kernel == Kernel::kNarrowCast) {
    cast(c, c.codes(2), nullptr);
  } else if (kernel == Kernel::kNarrowTurned) {
    cast(c, nullptr, c.codes(2));
  } else if (kernel == Kernel::kNarrowBoth) {
    cast(c, c.codes(2), c.codes(3));
  } else {
    multiply(c);
  }
}

template void run_narrow<float>(const Call<float>&, Kernel);
template void run_narrow<double>(const Call<double>&, Kernel);

}  // namespace trireme::runtime::cpu
