#include "planner/cost/narrow_casts.h"

#include "models/layer_parts.h"
#include "planner/plan/narrow.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kScan = 2;          // bytes of an element in 16 bits
constexpr std::int64_t kCast = kScan + 1;  // read in 16 bits, written in 8
constexpr std::int64_t kBoth = kCast + 1;  // with the transpose

// Bytes of an element of a product's operands, and kernels.
struct Casts {
  std::int64_t a, b;
  int kernels;
};
constexpr Casts kForward = {kScan + kCast, kScan + kCast, 4};
constexpr Casts kForwardKept = {kScan + kBoth, kScan + kCast, 4};
constexpr Casts kInputGradient = {kScan + kBoth, kCast, 3};
constexpr Casts kInputGradientAlone = {kScan + kCast, kCast, 3};  // of a frozen weight
constexpr Casts kWeightGradient = {kCast, 0, 1};  // of the input; the gradient is there

// Products of scores, where attention is not fused, stay in 16 bits.
void add(models::PassWork& work, const models::Matmul& product, const Casts& casts) {
  if (models::traits_of(product.part).stays_wide) {
    return;
  }
  const std::int64_t bytes = casts.a * product.m * product.k + casts.b * product.n * product.k;
  work.memory_bound.push_back({product.part, Bytes(bytes), casts.kernels});
}

bool keeps(const KeptCodes& codes, models::Part part) {
  using models::Part;
  return (part == Part::kQkv && codes.qkv) || (part == Part::kMlpUp && codes.up) ||
         (part == Part::kMlpDown && codes.down);
}

}  // namespace

void add_narrow_casts(const Job& job, const Plan& plan, std::int64_t layer,
                      models::LayerWork& work) {
  if (!multiplies_narrow(job)) {
    return;
  }
  const bool trained = !job.training.has_adapters() && layer >= job.training.frozen_layers;
  const KeptCodes codes = trained ? kept_codes(job, plan) : KeptCodes{};
  for (const models::Matmul& product : work.forward.matmuls) {
    add(work.forward, product, keeps(codes, product.part) ? kForwardKept : kForward);
  }
  for (const models::Matmul& product : work.input_gradient.matmuls) {
    add(work.input_gradient, product, trained ? kInputGradient : kInputGradientAlone);
  }
  for (const models::Matmul& product : work.weight_gradient.matmuls) {
    if (!keeps(codes, product.part)) {
      add(work.weight_gradient, product, kWeightGradient);
    }
  }
}

}  // namespace trireme::planner
