// Times what is queued on a stream: warm-up, then samples of enough repeats to last a few
// milliseconds each.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "core/microbenchmarks.h"

namespace trireme::runtime::cuda {

struct StopwatchSettings {
  int samples = 7;
  double sample_seconds = 4e-3;
  int repeats = 0;  // of one sample; 0: as many as sample_seconds take, found by a first timing
  // What all ranks of a collective take for the first timing, since all must repeat it as often.
  std::function<double(double seconds)> agree = {};
};

// `queue` queues one run of the work on the stream; its argument counts runs, so that it can rotate
// buffers.
Timing time_on_stream(cudaStream_t stream, const StopwatchSettings& settings,
                      const std::function<void(int)>& queue);
// Times single runs of `queue`, each behind `load` on the stream: work that keeps the GPU at the
// clock and the caches in the state that they have amid training. `load` should last longer than
// queueing the run takes. Includes the two events' time, about that between kernels of a stream.
Timing time_amid(cudaStream_t stream, int samples, const std::function<void(int)>& load,
                 const std::function<void(int)>& queue);
// Median and spread of samples in seconds. Requires: not empty.
Timing summarise(std::vector<double> samples);

}  // namespace trireme::runtime::cuda
