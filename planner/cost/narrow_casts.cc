#include "planner/cost/narrow_casts.h"

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
constexpr Casts kInputGradient = {kScan + kBoth, kCast, 3};
constexpr Casts kWeightGradient = {kCast, 0, 1};  // of the input; the gradient is there

void add(models::PassWork& work, const Casts& casts) {
  for (const models::Matmul& product : work.matmuls) {
    const std::int64_t bytes = casts.a * product.m * product.k + casts.b * product.n * product.k;
    work.memory_bound.push_back({product.part, Bytes(bytes), casts.kernels});
  }
}

}  // namespace

void add_narrow_casts(const Job& job, models::LayerWork& work) {
  if (multiplies_narrow(job)) {
    add(work.forward, kForward);
    add(work.input_gradient, kInputGradient);
    add(work.weight_gradient, kWeightGradient);
  }
}

}  // namespace trireme::planner
