// A small builder over cuDNN's backend graph API: tensors and operations in, one executable plan
// out. Only what attention needs.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme::runtime::cuda {

using Dims = std::array<std::int64_t, 4>;

// Owns a backend descriptor.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  [[nodiscard]] cudnnBackendDescriptor_t raw() const { return raw_; }
  // Throws Error when the library refuses.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* value);
  void finalize(const char* what);

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

class CudnnGraph {
 public:
  using Tensor =
      std::size_t;  // index of a tensor of this graph; its uid for execute() is the index + 1

  // A tensor in memory; the caller gives its pointer to execute().
  Tensor input(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
    return add_tensor(type, dims, strides, /*is_virtual=*/false, /*by_value=*/false);
  }
  // A tensor that exists only inside the fused kernel.
  Tensor virtual_tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
    return add_tensor(type, dims, strides, /*is_virtual=*/true, /*by_value=*/false);
  }
  // A float that execute() passes by value.
  Tensor scalar() {
    return add_tensor(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, /*by_value=*/true);
  }

  void matmul(Tensor a, Tensor b, Tensor c);
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  void select(Tensor when_true, Tensor when_false, Tensor mask, Tensor y);
  void index_of_axis(Tensor like, std::int64_t axis, Tensor y);
  void reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);

  // Asks the library for a plan. False, with the library's reason, when it has none.
  bool build(cudnnHandle_t handle, std::string& reason);
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_; }
  // pointers[i] belongs to tensors[i]. Throws Error.
  void execute(cudnnHandle_t handle, const std::vector<std::pair<Tensor, void*>>& pointers,
               void* workspace) const;

 private:
  Tensor add_tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides, bool is_virtual,
                    bool by_value);
  CudnnDescriptor pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                                      std::int64_t axis);
  void finish(CudnnDescriptor operation, const char* what);
  [[nodiscard]] cudnnBackendDescriptor_t raw(Tensor tensor) const { return tensors_[tensor].raw(); }

  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> kept_;  // what operations refer to
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_, plan_;
  std::vector<CudnnDescriptor> configs_;
  std::int64_t workspace_ = 0;
};

}  // namespace trireme::runtime::cuda
