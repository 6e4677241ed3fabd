#include "topologies/grouped_tiles.h"

#include <algorithm>
#include <cmath>

namespace trireme::topologies {

MatmulShape grouped_shape(MatmulShape shape, bool weight_gradient, bool adds) {
  constexpr double kFp32 = 4;
  shape.grouped = true;
  shape.weight_gradient = weight_gradient;
  if (weight_gradient) {
    shape.result_bytes = adds ? 2 * kFp32 : kFp32;
  }
  return shape;
}

double grouped_flop(const MatmulShape& shape, double multiprocessors) {
  constexpr double kTileM = 128, kTileN = 256, kTileK = 64;
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const double down =
      shape.weight_gradient ? std::ceil(m / kTileM) : std::max(1.0, m / kTileM + 0.5);
  const double k = static_cast<double>(shape.k) + (shape.weight_gradient ? kTileK / 2 : 0);
  const double tiles = down * std::ceil(n / kTileN) * static_cast<double>(shape.count);
  // No block is done before its last tile; tiles are taken as multiprocessors come free.
  const double on_longest = std::max(1.0, tiles / multiprocessors + 0.5);
  return 2.0 * kTileM * kTileN * k * multiprocessors * on_longest;
}

}  // namespace trireme::topologies
