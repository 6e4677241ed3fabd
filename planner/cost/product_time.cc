#include "planner/cost/product_time.h"

#include <algorithm>

#include "models/layer_parts.h"
#include "planner/cost/layer_memory.h"
#include "planner/plan/narrow.h"
#include "topologies/grouped_tiles.h"

namespace trireme::planner {

using topologies::Precision;

namespace {

// Of products by blocks, over one scale a tensor's: their sums leave the tensor cores every 128
// columns of k. One H200, cuBLASLt 13.1, the products of 8B's layers over 8,192 tokens in a step
// (docs/gpu_measurements.md): 0.88 to 0.92 forward and of input gradients, 0.68 to 0.71 of
// weights'.
double block_rate(const Job& job, bool weight_gradient) {
  if (!multiplies_narrow(job) || job.framework.fp8_recipe != Fp8Recipe::kBlockwise) {
    return 1;
  }
  return weight_gradient ? 0.68 : 0.91;
}

}  // namespace

bool has_fp32_experts(const Job& job, const Plan& plan) {
  return job.model.moe && job.framework.experts_without_autocast && uses_autocast(job, plan);
}

ProductWidth product_width(models::Part part, bool fp32_experts) {
  using models::Part;
  if (fp32_experts && (part == Part::kExpertsUp || part == Part::kExpertsDown)) {
    return ProductWidth::kFp32;
  }
  return models::traits_of(part).stays_wide ? ProductWidth::k16Bits : ProductWidth::kOfLayer;
}

bool groups_own_experts(const Job& job) {
  constexpr int kHopper = 90;
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.cluster.gpu.compute_capability == kHopper && job.precision == Precision::kBf16;
}

int own_expert_launches(const Job& job, std::int64_t experts) {
  return groups_own_experts(job) ? 2 : static_cast<int>(experts);  // the second clears its counter
}

namespace {

// Of an element that is cast for a product, at the memory's rate. 8 bits: 2 read for the maximum, 2
// read and 1 written. 4 bits, both copies of it turned by random Hadamard matrices: twice that in
// Transformer Engine's table of one layer's products with and without their casts on B300 (15,872
// tokens, hidden 4096: 2.7 ms for 1.24e9 elements, weights among them).
double cast_bytes(Precision precision) {
  constexpr double kEightBits = 5;
  return (precision == Precision::kFp4 ? 2 : 1) * kEightBits;
}

}  // namespace

double product_seconds(const Job& job, const topologies::OpCost& cost, const BehaviourFit& fit,
                       topologies::MatmulShape shape, const ProductKind& kind) {
  shape.weight_gradient = kind.weight_gradient;
  if (shape.count > 1 && groups_own_experts(job)) {
    shape = topologies::grouped_shape(shape, kind.weight_gradient, kind.adds);
  } else if (shape.count > 1 && job.framework.implementation == models::Implementation::kTrireme) {
    constexpr double kFp32 = 4;
    if (kind.weight_gradient) {
      shape.result_bytes = kind.adds ? 2 * kFp32 : kFp32;
    }
    if (!multiplies_narrow(job)) {  // in 8 bits several run at once (runtime/cuda/lanes.h)
      const topologies::MatmulShape one{
          .m = shape.m, .n = shape.n, .k = shape.k, .count = 1, .result_bytes = shape.result_bytes};
      return static_cast<double>(shape.count) * product_seconds(job, cost, fit, one, kind);
    }
  } else if (shape.count > 1 && !shape.grouped && kind.weight_gradient &&
             sums_in_place(job.framework)) {
    shape.result_bytes = 2 * std::min(4.0, job.framework.gradient_bytes);
  }
  if (kind.width == ProductWidth::kFp32) {
    return cost.matmul(shape, Precision::kFp32).value;
  }
  const bool narrow = job.precision == Precision::kFp8 || job.precision == Precision::kFp4;
  const bool wide = kind.width == ProductWidth::k16Bits;
  double seconds = cost.matmul(shape, narrow && wide ? Precision::kBf16 : job.precision).value;
  if (narrow && !wide) {
    seconds /= kind.weight_gradient ? job.framework.fp8_weight_gradient_rate : 1;
    seconds /= job.framework.fp8_product_rate * block_rate(job, kind.weight_gradient);
    const bool apart = multiplies_narrow(job);  // narrow_casts.h
    const bool casts_weights = job.framework.fp8_casts_weights && !kind.weight_gradient;
    const auto elements =
        static_cast<double>((shape.m + (casts_weights ? shape.n : 0)) * shape.k * shape.count);
    seconds += apart ? 0 : cast_bytes(job.precision) * elements / cost.memory_rate().value;
  }
  const bool new_card = job.cluster.gpu.compute_capability >= 90;
  return seconds / fit.product_rate / (new_card ? fit.new_card_rate : 1);
}

}  // namespace trireme::planner
