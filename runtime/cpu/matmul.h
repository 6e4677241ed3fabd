// Matrix products of the reference backend. Matrices are row-major and dense.
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // A is stored [k, m]
  bool transpose_b = false;  // B is stored [n, k]
};

// C[m, n] = op(A)[m, k] op(B)[k, n], or C += when `accumulate`.
template <typename T>
void matmul(const MatmulShape& shape, const T* a, const T* b, T* c, bool accumulate);

}  // namespace trireme::runtime::cpu
