#include "runtime/cuda/bench.h"

#include "runtime/cuda/check.h"
#include "runtime/cuda/random_fill.h"

namespace trireme::runtime::cuda {
namespace {

int highest_priority() {
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "stream priorities");
  return highest;
}

}  // namespace

Bench::Bench(int device, const MicrobenchSettings& settings)
    : settings_(settings),
      stream_(0),
      other_(highest_priority()),  // as the runtime gives communication
      workspace_(MatmulLibrary::kWorkspaceBytes, "matrix workspace"),
      attention_(matmuls_) {
  check(cudaSetDevice(device), "GPU");
}

void Bench::progress(double share, const std::string& what) const {
  if (settings_.progress) {
    settings_.progress(share, what);
  }
}

void Bench::remark(const std::string& line) const {
  if (settings_.remark) {
    settings_.remark(line);
  }
}

StopwatchSettings Bench::watch() const {
  return {.samples = quick() ? 5 : 9, .sample_seconds = quick() ? 3e-3 : 8e-3};
}

DeviceBytes Bench::random(std::size_t bytes, NumberFormat format) {
  DeviceBytes memory(bytes, "benchmark operands");
  fill_random(stream(), memory.data(), format, static_cast<std::int64_t>(bytes / bytes_of(format)),
              ++seed_);
  return memory;
}

}  // namespace trireme::runtime::cuda
