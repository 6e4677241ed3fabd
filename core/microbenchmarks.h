// Micro-benchmarks of the GPUs at hand: raw points, medians of repeated timings with their spread.
// Turning them into a profile is the planner's (planner/calibrate); taking them is a runtime's
// (runtime/cuda/microbench.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/units.h"

namespace trireme {

// Median of repeated timings and the relative distance between their quartiles.
struct Timing {
  Seconds median;
  double spread = 0;
};

// C[m,n] = op(A) op(B). Forward: B transposed; input gradient: neither; weight gradient: A
// transposed.
enum class MatmulLayout : std::uint8_t { kForward, kInputGradient, kWeightGradient };
// Of the operands. fp8: E4M3, and E5M2 for the gradient among them; every pass then runs as forward
// is laid out, on operands that are kept transposed where that takes it (cuBLASLt multiplies no
// other layout before Blackwell), and forward alone sums in the units' own narrow accumulator, as
// Transformer Engine and torchao have it.
enum class MatmulPrecision : std::uint8_t { kBf16, kFp16, kFp8 };
struct MatmulSample {
  std::int64_t m = 0, n = 0, k = 0;
  MatmulLayout layout = MatmulLayout::kForward;
  Timing timing;
  MatmulPrecision precision = MatmulPrecision::kBf16;
};
// The runtime's products of all of a rank's experts in one launch, in bf16: a row of Kernel::
// kExpertMatmul. Every expert has about as many rows, which are m, or k of a weight gradient; that
// one is written in fp32, or adds to what is there.
struct GroupedSample {
  std::int64_t experts = 0, m = 0, n = 0, k = 0;
  MatmulLayout layout = MatmulLayout::kForward;
  bool adds = false;
  Timing timing;
};
struct AttentionSample {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, sequence = 0, head_size = 0;
  Timing forward, backward;
  std::string kernel;  // "cudnn", or why not
};
// A pass over memory; bytes read plus written.
struct PassSample {
  Bytes traffic;
  Timing timing;
};
// One of the runtime's own memory-bound kernels, named as core/kernels.h names it; traffic as
// core/kernel_work.h counts it.
struct KernelSample {
  std::string kernel;
  std::int64_t rows = 0, columns = 0;
  Bytes traffic;
  Timing timing;
};
struct CopySample {
  // host_to_device, device_to_host, device_to_device, all GPUs at once; both_ways: as many bytes to
  // the host as from it at once, both_ways_alone: while the other GPUs wait. None in points of
  // before they were measured.
  std::string direction;
  Bytes bytes;
  Timing timing;
};
// `bytes` as nccl-tests' size column; ranks are the first `ranks` of the run.
struct CollectiveSample {
  std::string operation;  // all_reduce all_gather reduce_scatter all_to_all broadcast send_recv
  std::int64_t ranks = 0;
  Bytes bytes;
  Timing timing;
};
// A long matrix product beside a long collective: each alone, and each while the other runs.
struct OverlapSample {
  std::string operation;
  Timing compute_alone, compute_beside, collective_alone, collective_beside;
};

struct MachineFingerprint {
  std::string gpu, driver, cuda, nccl, cudnn;
  std::int64_t gpus = 0;
  int multiprocessors = 0;
  double clock_mhz = 0, memory_clock_mhz = 0;
  Bytes memory;
};

struct Microbenchmarks {
  MachineFingerprint machine;
  std::vector<MatmulSample> matmuls;
  std::vector<GroupedSample> grouped;  // none where the GPU has no such launch
  std::vector<AttentionSample> attention;
  std::vector<PassSample> passes;
  std::vector<KernelSample> kernels;  // none in points of before they were measured
  std::vector<CopySample> copies;
  std::vector<CollectiveSample> collectives;
  // "message": from one rank to the next on the multiprocessors that the runtime gives a pipeline's
  // messages; none in points of before they were measured.
  std::vector<CollectiveSample> messages;
  std::vector<OverlapSample> overlaps;
  Timing launch;  // host time to issue one small kernel
};

struct MicrobenchSettings {
  bool quick = false;  // under a minute instead of under five
  // Called with the share done so far, 0 to 1, and what is being measured.
  std::function<void(double, const std::string&)> progress;
  // Called with one line about what had to be left out.
  std::function<void(const std::string&)> remark;
};

}  // namespace trireme
