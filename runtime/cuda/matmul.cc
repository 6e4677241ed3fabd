#include "runtime/cuda/matmul.h"

#include <string>
#include <utility>

namespace trireme::runtime::cuda {
namespace {

std::int64_t or_else(std::int64_t value, std::int64_t fallback) {
  return value != 0 ? value : fallback;
}

cudaDataType_t type_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::kBf16:
      return CUDA_R_16BF;
    case NumberFormat::kFp16:
      return CUDA_R_16F;
    case NumberFormat::kE4m3:
      return CUDA_R_8F_E4M3;
    case NumberFormat::kE5m2:
      return CUDA_R_8F_E5M2;
  }
  return CUDA_R_16BF;
}

cudaDataType_t output_type(const MatmulCall& call) {
  if (call.output_fp32) {
    return CUDA_R_32F;
  }
  return call.format_a == NumberFormat::kFp16 ? CUDA_R_16F : CUDA_R_16BF;
}

// cuBLASLt is column-major, so the row-major c = a b is asked for as c' = b' a': b comes first, and
// a row-major matrix with rows of `row` elements is a column-major one with that leading dimension.
struct MatrixSize {
  std::int64_t rows = 0, columns = 0, leading = 0;
};

MatrixSize size_of_b(const MatmulCall& call) {
  const std::int64_t width = call.transpose_b ? call.k : call.n;
  return {width, call.transpose_b ? call.n : call.k, or_else(call.row_b, width)};
}

MatrixSize size_of_a(const MatmulCall& call) {
  const std::int64_t width = call.transpose_a ? call.m : call.k;
  return {width, call.transpose_a ? call.k : call.m, or_else(call.row_a, width)};
}

MatrixSize size_of_c(const MatmulCall& call) {
  return {call.n, call.m, or_else(call.row_c, call.n)};
}

cublasStatus_t make_layout(cudaDataType_t type, const MatrixSize& size, std::int64_t batch,
                           std::int64_t stride, cublasLtMatrixLayout_t& layout) {
  cublasStatus_t status =
      cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(size.rows),
                                 static_cast<std::uint64_t>(size.columns), size.leading);
  if (status == CUBLAS_STATUS_SUCCESS && batch > 1) {
    const auto count = static_cast<std::int32_t>(batch);
    status = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof(count));
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &stride, sizeof(stride));
    }
  }
  return status;
}

template <typename Value>
cublasStatus_t set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                   const Value& value) {
  return cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value));
}

std::string describe(const MatmulCall& call) {
  return "matrix product " + std::to_string(call.m) + "x" + std::to_string(call.n) + "x" +
         std::to_string(call.k);
}

void check_supported(cublasStatus_t status, const MatmulCall& call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw UnsupportedMatmul(describe(call),
                            std::string("cuBLASLt says: ") + cublasLtGetStatusString(status),
                            ErrorKind::kMissingMachine);
  }
}

}  // namespace

MatmulLibrary::MatmulLibrary() {
  check(cublasLtCreate(&handle_), "cuBLASLt");
}

MatmulLibrary::~MatmulLibrary() {
  for (const auto* kept : {&prepared_, &resized_}) {
    for (const auto& [call, prepared] : *kept) {
      destroy(prepared);
    }
  }
  cublasLtDestroy(handle_);
}

void MatmulLibrary::destroy(const Prepared& prepared) {
  for (cublasLtMatrixLayout_t layout : {prepared.first, prepared.second, prepared.output}) {
    if (layout != nullptr) {
      cublasLtMatrixLayoutDestroy(layout);
    }
  }
  if (prepared.operation != nullptr) {
    cublasLtMatmulDescDestroy(prepared.operation);
  }
}

cublasStatus_t MatmulLibrary::describe_operation(const MatmulCall& call, Prepared& prepared) {
  cublasStatus_t status =
      cublasLtMatmulDescCreate(&prepared.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const auto then = [&status](auto&& next) {
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = next();
    }
  };
  const auto put = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    then([&] { return set(prepared.operation, attribute, value); });
  };
  put(CUBLASLT_MATMUL_DESC_TRANSA, call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  put(CUBLASLT_MATMUL_DESC_TRANSB, call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (is_fp8(call.format_a) || is_fp8(call.format_b)) {
    if (unit_scale_.bytes() == 0) {
      constexpr float kOne = 1.0F;
      unit_scale_ = DeviceBytes(sizeof(kOne), "scale of fp8 operands");
      check(cudaMemcpy(unit_scale_.data(), &kOne, sizeof(kOne), cudaMemcpyHostToDevice),
            "scale of fp8 operands");
    }
    const void* scale = unit_scale_.data();
    put(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
    put(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale);
    put(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(call.fast_accumulate ? 1 : 0));
    if (call.scales != ScaleForm::kTensor) {
      put(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
          static_cast<std::int32_t>(call.scales == ScaleForm::kLines
                                        ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                        : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F));
      put(CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
          static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F));
    }
  }
  then([&] {
    return make_layout(type_of(call.format_b), size_of_b(call), call.batch, call.stride_b,
                       prepared.first);
  });
  then([&] {
    return make_layout(type_of(call.format_a), size_of_a(call), call.batch, call.stride_a,
                       prepared.second);
  });
  then([&] {
    return make_layout(output_type(call), size_of_c(call), call.batch, call.stride_c,
                       prepared.output);
  });
  return status;
}

cublasStatus_t MatmulLibrary::resize(const MatmulCall& call, const Prepared& prepared) {
  const std::pair<cublasLtMatrixLayout_t, MatrixSize> layouts[] = {
      {prepared.first, size_of_b(call)},
      {prepared.second, size_of_a(call)},
      {prepared.output, size_of_c(call)}};
  for (const auto& [layout, size] : layouts) {
    const std::pair<cublasLtMatrixLayoutAttribute_t, std::int64_t> values[] = {
        {CUBLASLT_MATRIX_LAYOUT_ROWS, size.rows},
        {CUBLASLT_MATRIX_LAYOUT_COLS, size.columns},
        {CUBLASLT_MATRIX_LAYOUT_LD, size.leading}};
    for (const auto& [attribute, value] : values) {
      const cublasStatus_t status =
          cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value));
      if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t MatmulLibrary::find_algorithm(const MatmulCall& call, Prepared& prepared) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "matrix preference");
  const std::size_t workspace = call.workspace_bytes;
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof(workspace)),
        "matrix preference");
  constexpr std::uint32_t kAnywhere = 16;
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    if (call.anywhere) {
      check(
          cublasLtMatmulPreferenceSetAttribute(preference, operand, &kAnywhere, sizeof(kAnywhere)),
          "matrix preference");
    }
  }
  cublasLtMatmulHeuristicResult_t result{};
  int results = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, prepared.operation, prepared.first, prepared.second, prepared.output,
      prepared.output, preference, 1, &result, &results);
  cublasLtMatmulPreferenceDestroy(preference);
  prepared.algorithm = result.algo;
  return status == CUBLAS_STATUS_SUCCESS && results == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

const MatmulLibrary::Prepared& MatmulLibrary::prepare(const MatmulCall& call) {
  const auto found = prepared_.find(call);
  if (found != prepared_.end()) {
    return found->second;
  }
  Prepared made;
  cublasStatus_t status = describe_operation(call, made);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = find_algorithm(call, made);
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    destroy(made);
    check_supported(status, call);
  }
  return prepared_.emplace(call, made).first->second;
}

cublasStatus_t MatmulLibrary::launch(const MatmulCall& call, const Prepared& prepared,
                                     const cublasLtMatmulAlgo_t& algorithm, const void* a,
                                     const void* b, void* c, void* workspace, cudaStream_t stream) {
  const float alpha = 1.0F;
  const float beta = call.accumulate ? 1.0F : 0.0F;
  return cublasLtMatmul(handle_, prepared.operation, &alpha, b, prepared.first, a, prepared.second,
                        &beta, c, prepared.output, c, prepared.output, &algorithm, workspace,
                        call.workspace_bytes, stream);
}

void MatmulLibrary::set_scales(const MatmulCall& call, const Prepared& prepared,
                               const OperandScales& scales) const {
  if (is_fp8(call.format_a) || is_fp8(call.format_b)) {  // cuBLASLt's first operand is b
    const auto* one = reinterpret_cast<const float*>(unit_scale_.data());
    check(set(prepared.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
              scales.b != nullptr ? scales.b : one),
          "scale of b");
    check(set(prepared.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
              scales.a != nullptr ? scales.a : one),
          "scale of a");
  }
}

void MatmulLibrary::run(const MatmulCall& call, const void* a, const void* b, void* c,
                        void* workspace, cudaStream_t stream, const OperandScales& scales) {
  const Prepared& prepared = prepare(call);
  set_scales(call, prepared, scales);
  const cublasStatus_t status =
      launch(call, prepared, prepared.algorithm, a, b, c, workspace, stream);
  if (status != CUBLAS_STATUS_SUCCESS) {
    check_supported(status, call);
  }
}

void MatmulLibrary::run_like(const MatmulCall& call, const MatmulCall& kept, const void* a,
                             const void* b, void* c, void* workspace, cudaStream_t stream,
                             const OperandScales& scales) {
  const cublasLtMatmulAlgo_t& algorithm = prepare(kept).algorithm;
  auto found = resized_.find(kept);
  if (found == resized_.end()) {
    Prepared made;
    made.algorithm = algorithm;
    if (describe_operation(kept, made) != CUBLAS_STATUS_SUCCESS) {
      destroy(made);
      run(call, a, b, c, workspace, stream, scales);
      return;
    }
    found = resized_.emplace(kept, made).first;
  }
  const Prepared& own = found->second;
  cublasStatus_t status = resize(call, own);
  if (status == CUBLAS_STATUS_SUCCESS) {
    set_scales(call, own, scales);
    status = launch(call, own, own.algorithm, a, b, c, workspace, stream);
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    run(call, a, b, c, workspace, stream, scales);
  }
}

}  // namespace trireme::runtime::cuda
