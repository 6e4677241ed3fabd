#include "planner/cost/written_norms.h"

#include <algorithm>
#include <array>

namespace trireme::planner {
namespace {

using models::Part;

constexpr std::array kNorms = {Part::kAttentionNorm, Part::kMlpNorm,       Part::kHeadNorm,
                               Part::kFinalNorm,     Part::kEmbeddingNorm, Part::kTokenNorm};

// An element of 2 bytes. Forward: to fp32 (2 + 4), square (4 + 4), mean (4), product with its root
// (4 + 4), back (4 + 2), product with the weight (2 + 2). Backward: both products of the weight (6
// each) and its sum (2), to fp32 (6), both products of the root (12 each) and its sum (4), the mean
// spread (4), the square's two products (12 each) with a copy (8), their sum (12), back (6).
constexpr double kForwardBytes = 32, kBackwardBytes = 102;
constexpr double kFusedForward = 4, kFusedBackward = 10;  // models/pass_cost.cc, eager
constexpr int kForwardKernels = 8, kBackwardKernels = 18;

void write_out(models::PassWork& work, double bytes, int kernels) {
  for (models::MemoryBoundWork& pass : work.memory_bound) {
    if (std::ranges::find(kNorms, pass.part) != kNorms.end()) {
      pass.traffic =
          Bytes(static_cast<std::int64_t>(static_cast<double>(pass.traffic.value) * bytes));
      pass.kernels = kernels;
    }
  }
}

}  // namespace

void write_out_norms(const Framework& framework, models::LayerWork& work) {
  if (framework.fp32_norms && framework.implementation == models::Implementation::kEagerTorch) {
    write_out(work.forward, kForwardBytes / kFusedForward, kForwardKernels);
    write_out(work.input_gradient, kBackwardBytes / kFusedBackward, kBackwardKernels);
  }
}

}  // namespace trireme::planner
