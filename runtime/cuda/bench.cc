#include "runtime/cuda/bench.h"

#include <algorithm>

#include "runtime/cuda/check.h"
#include "runtime/cuda/random_fill.h"

namespace trireme::runtime::cuda {
namespace {

constexpr std::int64_t kLoadSide = 4096;  // of the products that kernels are timed amid
constexpr std::size_t kLoadBytes = std::size_t{kLoadSide} * kLoadSide * 2;

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
      attention_(matmuls_),
      load_(3 * kLoadBytes, "benchmark load") {
  check(cudaSetDevice(device), "GPU");
  fill_random(stream(), load_.data(), NumberFormat::kBf16, 2 * kLoadSide * kLoadSide, ++seed_);
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

Timing Bench::time_amid_products(double flop, const std::function<void(int)>& queue) {
  const MatmulCall product = call_of({kLoadSide, kLoadSide, kLoadSide, MatmulLayout::kForward, {}});
  const double one = 2.0 * static_cast<double>(kLoadSide * kLoadSide * kLoadSide);
  const int products = static_cast<int>(std::clamp(3 * flop / one, 3.0, 64.0));
  const auto multiply = [&](int count) {
    for (int i = 0; i < count; ++i) {
      matmuls_.run(product, load_.data(), load_.data() + kLoadBytes, load_.data() + 2 * kLoadBytes,
                   workspace(), stream());
    }
  };
  multiply(quick() ? 100 : 300);  // 20 or 60 ms, until the clock has settled
  return time_amid(
      stream(), quick() ? 7 : 15, [&](int) { multiply(products); }, queue);
}

DeviceBytes Bench::random(std::size_t bytes, NumberFormat format) {
  DeviceBytes memory(bytes, "benchmark operands");
  fill_random(stream(), memory.data(), format, static_cast<std::int64_t>(bytes / bytes_of(format)),
              ++seed_);
  return memory;
}

}  // namespace trireme::runtime::cuda
