#include "runtime/cuda/lanes.h"

namespace trireme::runtime::cuda {

Lanes::Lanes(std::size_t count, int priority, std::size_t workspace_bytes)
    : begin_(cudaEventDisableTiming) {
  for (std::size_t i = 0; i < count; ++i) {
    lanes_.push_back({Stream(priority), Event(cudaEventDisableTiming),
                      DeviceBytes(workspace_bytes, "matrix workspace")});
  }
}

void Lanes::fork(cudaStream_t stream) {
  check(cudaEventRecord(begin_.raw(), stream), "lanes");
  for (const Lane& lane : lanes_) {
    check(cudaStreamWaitEvent(lane.stream.raw(), begin_.raw()), "lanes");
  }
}

void Lanes::join(cudaStream_t stream) {
  for (const Lane& lane : lanes_) {
    check(cudaEventRecord(lane.done.raw(), lane.stream.raw()), "lanes");
    check(cudaStreamWaitEvent(stream, lane.done.raw()), "lanes");
  }
}

std::size_t Lanes::workspace_bytes() const {
  std::size_t bytes = 0;
  for (const Lane& lane : lanes_) {
    bytes += lane.workspace.bytes();
  }
  return bytes;
}

}  // namespace trireme::runtime::cuda
