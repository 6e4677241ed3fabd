#include "planner/cost/product_time.h"

namespace trireme::planner {

double product_seconds(const Job& job, const topologies::OpCost& cost, const BehaviourFit& fit,
                       const topologies::MatmulShape& shape, bool stays_wide) {
  if (shape.count > 1 && job.framework.implementation == models::Implementation::kTrireme) {
    const topologies::MatmulShape one{shape.m, shape.n, shape.k, 1};
    return static_cast<double>(shape.count) * product_seconds(job, cost, fit, one, stays_wide);
  }
  constexpr double kCastBytes = 5;  // an element: 2 read for the maximum, 2 read and 1 written
  const bool narrow =
      job.precision == topologies::Precision::kFp8 || job.precision == topologies::Precision::kFp4;
  const auto precision = narrow && stays_wide ? topologies::Precision::kBf16 : job.precision;
  double seconds = cost.matmul(shape, precision).value;
  if (narrow && !stays_wide) {
    const auto elements = static_cast<double>(shape.m * shape.k * shape.count);
    seconds += kCastBytes * elements / cost.memory_rate().value;
  }
  const bool new_card = job.cluster.gpu.compute_capability >= 90;
  return new_card ? seconds / fit.new_card_rate : seconds;
}

}  // namespace trireme::planner
