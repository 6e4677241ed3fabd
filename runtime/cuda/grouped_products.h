// Products of each expert with its rows, of all experts in one launch; how many rows each has stays
// on the device. Of Hopper GPUs alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace trireme::runtime::cuda {

// Row-major bf16, sums in fp32. The rows of the experts lie after each other: the e-th has the sum
// over `sources` of counts[source][e] of them. There is room for `rows`, and what lies behind the
// last one may hold anything.
//   c[rows, n] = a[rows, k] b, with b[experts][k, n], or [n, k] when transpose_b;
//   or, when rows_summed, c[experts][m, n] (+)= a[rows, m] transposed b[rows, n].
struct GroupedProducts {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;  // bf16, or fp32 when output_fp32
  const std::int32_t* counts = nullptr;
  std::int64_t m = 0, n = 0, k = 0, rows = 0;
  std::int64_t experts = 0, sources = 1;
  bool rows_summed = false, transpose_b = false, accumulate = false, output_fp32 = false;
};
inline constexpr int kMostGroupedExperts = 1024;

// Whether the current device has the tensor cores, and the products a form, for grouped_products.
bool can_group(const GroupedProducts& products);
// The first bytes of `workspace` are written.
void grouped_products(const GroupedProducts& products, void* workspace, cudaStream_t stream);

}  // namespace trireme::runtime::cuda
