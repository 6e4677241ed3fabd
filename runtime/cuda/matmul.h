// Matrix products through cuBLASLt in bf16 with fp32 sums. The heuristic's choice is kept by shape.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

namespace trireme::runtime::cuda {

// c[m,n] (+)= op(a) op(b), all row-major: a is [m,k], or [k,m] when transpose_a; b is [k,n], or
// [n,k] when transpose_b. `batch` products lie `stride_*` elements apart; leading dimensions 0 mean
// contiguous rows.
struct MatmulCall {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  bool output_fp32 = false;
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  std::int64_t row_a = 0, row_b = 0, row_c = 0;
  friend auto operator<=>(const MatmulCall&, const MatmulCall&) = default;
};

// One a device. Not for several threads at once.
class MatmulLibrary {
 public:
  MatmulLibrary();
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;
  MatmulLibrary(MatmulLibrary&&) = delete;
  MatmulLibrary& operator=(MatmulLibrary&&) = delete;

  // Queues the product on `stream` with `workspace` of kWorkspaceBytes. Throws Error when no
  // algorithm exists.
  void run(const MatmulCall& call, const void* a, const void* b, void* c, void* workspace,
           cudaStream_t stream);

  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

 private:
  struct Prepared {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t first = nullptr, second = nullptr, output = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };
  const Prepared& prepare(const MatmulCall& call);

  cublasLtHandle_t handle_ = nullptr;
  std::map<MatmulCall, Prepared> prepared_;
};

}  // namespace trireme::runtime::cuda
