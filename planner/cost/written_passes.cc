#include "planner/cost/written_passes.h"

#include <algorithm>
#include <array>
#include <span>

namespace trireme::planner {
namespace {

using models::Part;

constexpr std::array kNorms = {Part::kAttentionNorm, Part::kMlpNorm,       Part::kHeadNorm,
                               Part::kFinalNorm,     Part::kEmbeddingNorm, Part::kTokenNorm};
constexpr std::array kReturns = {Part::kUnpermute};

// Bytes of an element and kernels of a pass, over the bytes that models/pass_cost.cc has (eager).
struct Written {
  double bytes, fused_bytes;
  int kernels;
};

// An element of 2 bytes. Forward: to fp32 (2 + 4), square (4 + 4), mean (4), product with its root
// (4 + 4), back (4 + 2), product with the weight (2 + 2). Backward: both products of the weight (6
// each) and its sum (2), to fp32 (6), both products of the root (12 each) and its sum (4), the mean
// spread (4), the square's two products (12 each) with a copy (8), their sum (12), back (6).
constexpr Written kNormForward = {32, 4, 8}, kNormBackward = {102, 10, 18};

// Rows to the experts and back: gather, padding rows joined and cut, index_put into zeros, fp32 and
// back, weights and sums by small products; backward with the gather's scatter-add. Index kernels
// reach a fifth of the memory's rate. Traced on H200, 4,096 tokens of 2,048 elements to 8 experts:
// 1.8 ms forward and 2.1 ms backward a layer, as long as 105 and 120 bytes an element take; 20 each
// are counted on the way to the experts.
constexpr Written kReturnForward = {80, 20, 10}, kReturnBackward = {100, 20, 12};

void write_out(models::PassWork& work, std::span<const Part> parts, const Written& written) {
  for (models::MemoryBoundWork& pass : work.memory_bound) {
    if (std::ranges::find(parts, pass.part) != parts.end()) {
      pass.traffic = Bytes(static_cast<std::int64_t>(static_cast<double>(pass.traffic.value) *
                                                     written.bytes / written.fused_bytes));
      pass.kernels = written.kernels;
    }
  }
}

}  // namespace

void write_out_passes(const Framework& framework, models::LayerWork& work) {
  if (framework.implementation != models::Implementation::kEagerTorch) {
    return;
  }
  if (framework.fp32_norms) {
    write_out(work.forward, kNorms, kNormForward);
    write_out(work.input_gradient, kNorms, kNormBackward);
  }
  if (!framework.traced_graph) {
    write_out(work.forward, kReturns, kReturnForward);
    write_out(work.input_gradient, kReturns, kReturnBackward);
  }
}

}  // namespace trireme::planner
