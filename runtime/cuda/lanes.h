// Streams beside a stream, on which launches that do not wait for each other run at once: small
// ones leave most of a GPU idle one after the other.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>

#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"

namespace trireme::runtime::cuda {

class Lanes {
 public:
  static constexpr std::size_t kCount = 4;

  [[nodiscard]] cudaStream_t stream(std::size_t lane) const { return streams_[lane].raw(); }

  // What comes on the lanes waits for what `from` has.
  void fork(cudaStream_t from) const {
    check(cudaEventRecord(forked_.raw(), from), "fork");
    for (const Stream& stream : streams_) {
      check(cudaStreamWaitEvent(stream.raw(), forked_.raw()), "fork");
    }
  }
  // What comes on `to` waits for what the lanes have.
  void join(cudaStream_t to) const {
    for (std::size_t lane = 0; lane < kCount; ++lane) {
      check(cudaEventRecord(joined_[lane].raw(), streams_[lane].raw()), "join");
      check(cudaStreamWaitEvent(to, joined_[lane].raw()), "join");
    }
  }

 private:
  static Stream make_stream() {
    int lowest = 0;
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "lanes");
    return Stream(lowest);
  }
  static constexpr unsigned int kFlags = cudaEventDisableTiming;

  std::array<Stream, kCount> streams_ = {make_stream(), make_stream(), make_stream(),
                                         make_stream()};
  Event forked_{kFlags};
  std::array<Event, kCount> joined_ = {Event(kFlags), Event(kFlags), Event(kFlags), Event(kFlags)};
};

}  // namespace trireme::runtime::cuda
