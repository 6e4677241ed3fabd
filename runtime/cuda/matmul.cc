#include "runtime/cuda/matmul.h"

#include <string>

#include "runtime/cuda/check.h"

namespace trireme::runtime::cuda {
namespace {

// cuBLASLt is column-major, so the row-major c = a b is asked for as c' = b' a': b comes first, and
// a row-major matrix with rows of `row` elements is a column-major one with that leading dimension.
cublasLtMatrixLayout_t make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                   std::int64_t leading, std::int64_t batch, std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), leading),
        "matrix layout");
  if (batch > 1) {
    const auto count = static_cast<std::int32_t>(batch);
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof(count)),
          "matrix batch");
    check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof(stride)),
          "matrix stride");
  }
  return layout;
}

std::int64_t or_else(std::int64_t value, std::int64_t fallback) {
  return value != 0 ? value : fallback;
}

std::string describe(const MatmulCall& call) {
  return "matrix product " + std::to_string(call.m) + "x" + std::to_string(call.n) + "x" +
         std::to_string(call.k);
}

}  // namespace

MatmulLibrary::MatmulLibrary() {
  check(cublasLtCreate(&handle_), "cuBLASLt");
}

MatmulLibrary::~MatmulLibrary() {
  for (auto& [call, prepared] : prepared_) {
    cublasLtMatrixLayoutDestroy(prepared.first);
    cublasLtMatrixLayoutDestroy(prepared.second);
    cublasLtMatrixLayoutDestroy(prepared.output);
    cublasLtMatmulDescDestroy(prepared.operation);
  }
  cublasLtDestroy(handle_);
}

const MatmulLibrary::Prepared& MatmulLibrary::prepare(const MatmulCall& call) {
  const auto found = prepared_.find(call);
  if (found != prepared_.end()) {
    return found->second;
  }
  Prepared made;
  check(cublasLtMatmulDescCreate(&made.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "matrix product");
  const cublasOperation_t op_first = call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_second = call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSA, &op_first,
                                       sizeof(op_first)),
        "matrix product");
  check(cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSB, &op_second,
                                       sizeof(op_second)),
        "matrix product");
  const std::int64_t b_width = call.transpose_b ? call.k : call.n;
  const std::int64_t a_width = call.transpose_a ? call.m : call.k;
  made.first = make_layout(CUDA_R_16BF, b_width, call.transpose_b ? call.n : call.k,
                           or_else(call.row_b, b_width), call.batch, call.stride_b);
  made.second = make_layout(CUDA_R_16BF, a_width, call.transpose_a ? call.k : call.m,
                            or_else(call.row_a, a_width), call.batch, call.stride_a);
  made.output = make_layout(call.output_fp32 ? CUDA_R_32F : CUDA_R_16BF, call.n, call.m,
                            or_else(call.row_c, call.n), call.batch, call.stride_c);
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "matrix preference");
  const std::size_t workspace = kWorkspaceBytes;
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof(workspace)),
        "matrix preference");
  cublasLtMatmulHeuristicResult_t result{};
  int results = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, made.operation, made.first, made.second, made.output,
                                     made.output, preference, 1, &result, &results);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || results == 0) {
    throw Error(describe(call), "cuBLASLt has no algorithm for it", ErrorKind::kMissingMachine);
  }
  made.algorithm = result.algo;
  return prepared_.emplace(call, made).first->second;
}

void MatmulLibrary::run(const MatmulCall& call, const void* a, const void* b, void* c,
                        void* workspace, cudaStream_t stream) {
  const Prepared& prepared = prepare(call);
  const float alpha = 1.0F;
  const float beta = call.accumulate ? 1.0F : 0.0F;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, prepared.operation, &alpha, b, prepared.first, a, prepared.second, &beta, c,
      prepared.output, c, prepared.output, &prepared.algorithm, workspace, kWorkspaceBytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS) {
    check(status, describe(call).c_str());
  }
}

}  // namespace trireme::runtime::cuda
