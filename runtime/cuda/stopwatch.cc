#include "runtime/cuda/stopwatch.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"

namespace trireme::runtime::cuda {

Timing summarise(std::vector<double> samples) {
  TRIREME_CHECK(!samples.empty());
  std::ranges::sort(samples);
  const auto quantile = [&samples](double share) {
    return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  const double median = quantile(0.5);
  return {Seconds(median), median > 0 ? (quantile(0.75) - quantile(0.25)) / median : 0.0};
}

Timing time_on_stream(cudaStream_t stream, const StopwatchSettings& settings,
                      const std::function<void(int)>& queue) {
  const Event begin(static_cast<unsigned int>(cudaEventDefault));
  const Event end(static_cast<unsigned int>(cudaEventDefault));
  int run = 0;
  const auto time_repeats = [&](int repeats) {
    check(cudaEventRecord(begin.raw(), stream), "timing");
    for (int i = 0; i < repeats; ++i) {
      queue(run++);
    }
    check(cudaEventRecord(end.raw(), stream), "timing");
    check(cudaEventSynchronize(end.raw()), "timing");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.raw(), end.raw()), "timing");
    return static_cast<double>(milliseconds) * 1e-3 / repeats;
  };
  time_repeats(2);  // the first run of a shape also plans it
  int repeats = settings.repeats;
  if (repeats == 0) {
    const double timed = time_repeats(3);
    const double once = std::max(settings.agree ? settings.agree(timed) : timed, 1e-7);
    repeats = static_cast<int>(std::clamp(settings.sample_seconds / once, 1.0, 2000.0));
  }
  std::vector<double> samples;
  for (int i = 0; i < settings.samples; ++i) {
    samples.push_back(time_repeats(repeats));
  }
  return summarise(samples);
}

Timing time_amid(cudaStream_t stream, int samples, const std::function<void(int)>& load,
                 const std::function<void(int)>& queue) {
  struct Pair {
    Event begin{static_cast<unsigned int>(cudaEventDefault)};
    Event end{static_cast<unsigned int>(cudaEventDefault)};
  };
  queue(0);  // the first run of a shape also plans it
  std::vector<Pair> pairs(static_cast<std::size_t>(samples));
  for (int i = 0; i < samples; ++i) {
    const Pair& pair = pairs[static_cast<std::size_t>(i)];
    load(i);
    check(cudaEventRecord(pair.begin.raw(), stream), "timing");
    queue(i + 1);
    check(cudaEventRecord(pair.end.raw(), stream), "timing");
  }
  check(cudaStreamSynchronize(stream), "timing");
  std::vector<double> seconds;
  for (const Pair& pair : pairs) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, pair.begin.raw(), pair.end.raw()), "timing");
    seconds.push_back(static_cast<double>(milliseconds) * 1e-3);
  }
  return summarise(seconds);
}

}  // namespace trireme::runtime::cuda
