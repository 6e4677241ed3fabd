// Matrix products through cuBLASLt with fp32 sums: bf16, as the runtime trains, and fp16 and fp8
// for benchmarks. The heuristic's choice is kept by shape.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/cuda/number_format.h"

namespace trireme::runtime::cuda {

inline constexpr std::size_t kMatmulWorkspace = std::size_t{32} << 20;

// c[m,n] (+)= op(a) op(b), all row-major: a is [m,k], or [k,m] when transpose_a; b is [k,n], or
// [n,k] when transpose_b. `batch` products lie `stride_*` elements apart; leading dimensions 0 mean
// contiguous rows. c is fp32, or of 16 bits: fp16 when the operands are, else bf16.
//
// fp8 operands (at most one of them E5M2) need compute capability 8.9, extents that are multiples
// of 16 and, before Blackwell, transpose_b alone. `fast_accumulate` leaves their sums in the units'
// own narrow accumulator instead of adding them up in fp32 every few columns of k.
//
// With a scale for each 128 neighbours of a row of a and b ("lines"), or for each square of 128 x
// 128 of b, operands are E4M3, extents multiples of 128, sums are never the fast ones and the
// device is of compute capability 9.0; where scales lie says core/kernels.h. cuBLASLt 12.9 has them
// as VEC128_32F and BLK128x128_32F, squares on one side at most.
// `workspace_bytes` is how much of the workspace the product may use.
enum class ScaleForm : std::uint8_t { kTensor, kLines, kSquaresOfB };

struct MatmulCall {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  bool output_fp32 = false;
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  std::int64_t row_a = 0, row_b = 0, row_c = 0;
  NumberFormat format_a = NumberFormat::kBf16, format_b = NumberFormat::kBf16;
  bool fast_accumulate = false;
  bool anywhere = false;  // operands begin at any multiple of 16 bytes, not of 256
  ScaleForm scales = ScaleForm::kTensor;
  std::size_t workspace_bytes = kMatmulWorkspace;
  friend auto operator<=>(const MatmulCall&, const MatmulCall&) = default;
};

// What fp8 operands are multiplied by, floats on the device, one of a tensor; null: 1.
struct OperandScales {
  const float* a = nullptr;
  const float* b = nullptr;
};

// cuBLASLt refuses this product; others, and the device, are as they were.
class UnsupportedMatmul : public Error {
 public:
  using Error::Error;
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

  // Queues the product on `stream` with `workspace` of the call's bytes. Throws UnsupportedMatmul
  // when cuBLASLt has no algorithm for it or refuses it.
  void run(const MatmulCall& call, const void* a, const void* b, void* c, void* workspace,
           cudaStream_t stream, const OperandScales& scales = {});

  // The same by the algorithm of a product of another size, which is kept with descriptions that
  // take this one's size (making them anew took the host as long as its launch); by its own where
  // that does not serve.
  void run_like(const MatmulCall& call, const MatmulCall& kept, const void* a, const void* b,
                void* c, void* workspace, cudaStream_t stream, const OperandScales& scales = {});

  static constexpr std::size_t kWorkspaceBytes = kMatmulWorkspace;

 private:
  struct Prepared {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t first = nullptr, second = nullptr, output = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };
  const Prepared& prepare(const MatmulCall& call);
  // What `prepared` describes becomes the call, which differs in extents alone.
  static cublasStatus_t resize(const MatmulCall& call, const Prepared& prepared);
  // Fills in what `prepared` has; a status other than success is why it is incomplete.
  cublasStatus_t describe_operation(const MatmulCall& call, Prepared& prepared);
  // Of fp8 operands.
  void set_scales(const MatmulCall& call, const Prepared& prepared,
                  const OperandScales& scales) const;
  cublasStatus_t find_algorithm(const MatmulCall& call, Prepared& prepared);
  cublasStatus_t launch(const MatmulCall& call, const Prepared& prepared,
                        const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b,
                        void* c, void* workspace, cudaStream_t stream);
  static void destroy(const Prepared& prepared);

  cublasLtHandle_t handle_ = nullptr;
  std::map<MatmulCall, Prepared> prepared_;
  std::map<MatmulCall, Prepared> resized_;  // by the call whose algorithm they have
  DeviceBytes unit_scale_;  // one float, 1: what fp8 operands are multiplied by; made when needed
};

}  // namespace trireme::runtime::cuda
