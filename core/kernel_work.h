// FLOP and memory traffic of a kernel from its dims: what a Work carries for the cost model.
#pragma once

#include "core/program.h"

namespace trireme {

// Multiply-adds counted as two; matrix products and attention (the causal half; backward 5 products
// to the forward's 2, as flash attention does), 0 for passes over memory.
Flop kernel_flop(const Work& work);
// Bytes read plus written. `operand_bytes` is the sum over the operands (updated ones twice): right
// for most kernels; table lookups touch only the rows they name.
Bytes kernel_traffic(const Work& work, Bytes operand_bytes, const ElementWidths& widths);

}  // namespace trireme
