// What the micro-benchmarks of one GPU share, and the benchmarks themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/microbenchmarks.h"
#include "core/units.h"
#include "runtime/coordinator.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/cuda/matmul.h"
#include "runtime/cuda/stopwatch.h"

namespace trireme::runtime::cuda {

inline constexpr std::size_t kRotation = std::size_t{256}
                                         << 20;  // operands rotate over more than the L2 cache
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// Streams, libraries and random operands on one device.
class Bench {
 public:
  // Throws Error when the device cannot be used.
  Bench(int device, const MicrobenchSettings& settings);

  [[nodiscard]] bool quick() const { return settings_.quick; }
  void progress(double share, const std::string& what) const;
  void remark(const std::string& line) const;
  [[nodiscard]] cudaStream_t stream() const { return stream_.raw(); }
  [[nodiscard]] cudaStream_t other_stream() const { return other_.raw(); }
  [[nodiscard]] void* workspace() const { return workspace_.data(); }
  MatmulLibrary& matmuls() { return matmuls_; }
  AttentionLibrary& attention() { return attention_; }
  [[nodiscard]] StopwatchSettings watch() const;
  // One run of `queue` amid products, as in training: `flop` is the run's, so that products stay
  // most of the work. Under their load the GPU's power limit holds its clock, which a kernel alone
  // does not show (attention's rate is a sixth lower).
  Timing time_amid_products(double flop, const std::function<void(int)>& queue);
  // Random elements that fill `bytes`. Throws Error when the device has not that much left.
  DeviceBytes random(std::size_t bytes, NumberFormat format = NumberFormat::kBf16);

 private:
  MicrobenchSettings settings_;
  Stream stream_, other_;
  DeviceBytes workspace_;
  MatmulLibrary matmuls_;
  AttentionLibrary attention_;
  DeviceBytes load_;  // operands and result of the products that kernels are timed amid
  std::uint64_t seed_ = 0;
};

// The product in the layout that its pass and precision have.
MatmulCall call_of(const MatmulSample& sample);
// Each precision that the card has units for. What cuBLASLt refuses is left out, with one remark
// for each pass and precision.
void measure_matmuls(Bench& bench, Microbenchmarks& found);

// Of experts, where one launch has them all (grouped_products.h).
void measure_grouped(Bench& bench, Microbenchmarks& found);

void measure_attention(Bench& bench, Microbenchmarks& found);
void measure_passes(Bench& bench, Microbenchmarks& found);
void measure_own_kernels(Bench& bench, Microbenchmarks& found);
// On all GPUs of the host at once, as optimizers that lie on it copy: they share its memory.
// Collective over the coordinator's ranks; throws Error when a peer does not come within the run's
// time-out.
void measure_copies(Bench& bench, Coordinator& coordinator, Microbenchmarks& found);
void measure_launch(Bench& bench, Microbenchmarks& found);

// Over 2, 4, … and all ranks; collective over the coordinator's. Throws Error when a peer does not
// come within `timeout`.
void measure_collectives(Bench& bench, Coordinator& coordinator, Seconds timeout,
                         Microbenchmarks& found);

}  // namespace trireme::runtime::cuda
