// Formats of the operands that matrix products take.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::runtime::cuda {

// fp8 as in Micikevicius et al. 2022: E4M3 for weights and activations, E5M2 for gradients.
enum class NumberFormat : std::uint8_t { kBf16, kFp16, kE4m3, kE5m2 };

inline bool is_fp8(NumberFormat format) {
  return format == NumberFormat::kE4m3 || format == NumberFormat::kE5m2;
}

inline std::size_t bytes_of(NumberFormat format) {
  return is_fp8(format) ? 1 : 2;
}

}  // namespace trireme::runtime::cuda
