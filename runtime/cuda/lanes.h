// Streams beside one, for many small kernels that each leave most of the GPU idle: an op's kernels
// are spread over them and meet again on its own stream. They wait for what was issued earlier
// only, so that sharing hardware queues cannot block them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "runtime/cuda/device_objects.h"

namespace trireme::runtime::cuda {

class Lanes {
 public:
  // `workspace_bytes` for each.
  Lanes(std::size_t count, int priority, std::size_t workspace_bytes);

  // What is issued on the lanes from here on follows what `stream` has.
  void fork(cudaStream_t stream);
  // `stream` goes on when the lanes are done.
  void join(cudaStream_t stream);

  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  [[nodiscard]] cudaStream_t stream(std::size_t lane) const { return lanes_[lane].stream.raw(); }
  [[nodiscard]] void* workspace(std::size_t lane) const { return lanes_[lane].workspace.data(); }
  [[nodiscard]] std::size_t workspace_bytes() const;

 private:
  struct Lane {
    Stream stream;
    Event done;
    DeviceBytes workspace;
  };
  Event begin_;
  std::vector<Lane> lanes_;
};

}  // namespace trireme::runtime::cuda
