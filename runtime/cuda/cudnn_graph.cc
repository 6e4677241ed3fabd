#include "runtime/cuda/cudnn_graph.h"

#include "runtime/cuda/check.h"

namespace trireme::runtime::cuda {

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &raw_), "cuDNN descriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (raw_ != nullptr) {
    cudnnBackendDestroyDescriptor(raw_);
  }
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* value) {
  check(cudnnBackendSetAttribute(raw_, name, type, count, value), "cuDNN attribute");
}

void CudnnDescriptor::finalize(const char* what) {
  check(cudnnBackendFinalize(raw_), what);
}

CudnnGraph::Tensor CudnnGraph::add_tensor(cudnnDataType_t type, const Dims& dims,
                                          const Dims& strides, bool is_virtual, bool by_value) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto uid = static_cast<std::int64_t>(tensors_.size() + 1);
  const std::int64_t alignment = by_value ? 4 : 16;
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  tensor.finalize("cuDNN tensor");
  tensors_.push_back(std::move(tensor));
  return tensors_.size() - 1;
}

void CudnnGraph::finish(CudnnDescriptor operation, const char* what) {
  operation.finalize(what);
  operations_.push_back(std::move(operation));
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  CudnnDescriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  product.finalize("cuDNN product");
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  const std::array<cudnnBackendDescriptor_t, 4> parts = {raw(a), raw(b), raw(c), product.raw()};
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0]);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1]);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[2]);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[3]);
  kept_.push_back(std::move(product));
  finish(std::move(operation), "cuDNN product");
}

CudnnDescriptor CudnnGraph::pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                                                std::int64_t axis) {
  CudnnDescriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    function.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  }
  function.finalize("cuDNN pointwise");
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  const cudnnBackendDescriptor_t handle = function.raw();
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &handle);
  kept_.push_back(std::move(function));
  return operation;
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y, cudnnDataType_t compute) {
  CudnnDescriptor operation = pointwise_operation(mode, compute, -1);
  const std::array<cudnnBackendDescriptor_t, 2> parts = {raw(x), raw(y)};
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1]);
  finish(std::move(operation), "cuDNN pointwise");
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y,
                           cudnnDataType_t compute) {
  CudnnDescriptor operation = pointwise_operation(mode, compute, -1);
  const std::array<cudnnBackendDescriptor_t, 3> parts = {raw(x), raw(b), raw(y)};
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[2]);
  finish(std::move(operation), "cuDNN pointwise");
}

void CudnnGraph::select(Tensor when_true, Tensor when_false, Tensor mask, Tensor y) {
  CudnnDescriptor operation =
      pointwise_operation(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1);
  const std::array<cudnnBackendDescriptor_t, 4> parts = {raw(when_true), raw(when_false), raw(mask),
                                                         raw(y)};
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[2]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[3]);
  finish(std::move(operation), "cuDNN selection");
}

void CudnnGraph::index_of_axis(Tensor like, std::int64_t axis, Tensor y) {
  CudnnDescriptor operation =
      pointwise_operation(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis);
  const std::array<cudnnBackendDescriptor_t, 2> parts = {raw(like), raw(y)};
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1]);
  finish(std::move(operation), "cuDNN index");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y) {
  CudnnDescriptor function(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  function.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
  function.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  function.finalize("cuDNN reduction");
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  const std::array<cudnnBackendDescriptor_t, 3> parts = {raw(x), raw(y), function.raw()};
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0]);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1]);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[2]);
  kept_.push_back(std::move(function));
  finish(std::move(operation), "cuDNN reduction");
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  const std::array<cudnnBackendDescriptor_t, 2> parts = {raw(x), raw(y)};
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[0]);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &parts[1]);
  finish(std::move(operation), "cuDNN reshape");
}

bool CudnnGraph::build(cudnnHandle_t handle, std::string& reason) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) {
    operations.push_back(operation.raw());
  }
  graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             static_cast<std::int64_t>(operations.size()), operations.data());
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  const auto refused = [&reason](cudnnStatus_t status, const char* what) {
    if (status != CUDNN_STATUS_SUCCESS) {
      std::array<char, 256> text{};
      cudnnGetLastErrorString(text.data(), text.size());
      reason = std::string(what) + ": " + cudnnGetErrorString(status) + " " + text.data();
    }
    return status != CUDNN_STATUS_SUCCESS;
  };
  if (refused(cudnnBackendFinalize(graph_.raw()), "graph")) {
    return false;
  }
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendDescriptor_t graph = graph_.raw();
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (refused(cudnnBackendFinalize(heuristic.raw()), "heuristic")) {
    return false;
  }
  constexpr std::int64_t kCandidates = 8;
  std::vector<cudnnBackendDescriptor_t> candidates;
  for (std::int64_t i = 0; i < kCandidates; ++i) {
    configs_.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    candidates.push_back(configs_.back().raw());
  }
  std::int64_t found = 0;
  if (refused(cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, kCandidates, &found,
                                       candidates.data()),
              "heuristic results")) {
    return false;
  }
  reason = "no engine";
  for (std::int64_t i = 0; i < found; ++i) {
    plan_ = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
              &candidates[static_cast<std::size_t>(i)]);
    if (refused(cudnnBackendFinalize(plan_.raw()), "plan")) {
      continue;
    }
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(plan_.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                   CUDNN_TYPE_INT64, 1, &count, &workspace_),
          "cuDNN workspace size");
    return true;
  }
  return false;
}

void CudnnGraph::execute(cudnnHandle_t handle,
                         const std::vector<std::pair<Tensor, void*>>& pointers,
                         void* workspace) const {
  std::vector<std::int64_t> uids;
  std::vector<void*> addresses;
  for (const auto& [tensor, address] : pointers) {
    uids.push_back(static_cast<std::int64_t>(tensor + 1));
    addresses.push_back(address);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(uids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize("cuDNN variant pack");
  check(cudnnBackendExecute(handle, plan_.raw(), pack.raw()), "cuDNN attention");
}

}  // namespace trireme::runtime::cuda
