// Products of experts in one launch of this project's runtime: what its tiles multiply
// (runtime/cuda/grouped_products.cu).
#pragma once

#include "topologies/op_cost.h"

namespace trireme::topologies {

// The shape of such products: gradients are in fp32.
MatmulShape grouped_shape(MatmulShape shape, bool weight_gradient, bool adds);
// FLOP of the tiles, and of the multiprocessors that wait in the last wave. Experts have unlike
// numbers of rows, so that the last tile of each is half full on average.
double grouped_flop(const MatmulShape& shape, double multiprocessors);

}  // namespace trireme::topologies
