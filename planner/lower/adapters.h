// Low-rank adapters beside a frozen product y = x W^T (LoRA, Hu et al. 2021): y += (x A^T) B^T,
// A [rank, in], B [out, rank], alpha as the rank. Both ways the rank is what tensor ranks add up in
// the product's own sum, so that adapters have no collectives but those of their gradients.
#pragma once

#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

// Names of its ops.
struct AdapterNames {
  const char* low = nullptr;  // x A^T
  const char* add = nullptr;
  const char* d_low = nullptr;
  const char* d_input = nullptr;
  const char* down = nullptr;  // gradients of A and B
  const char* up = nullptr;
};

struct Adapter {
  AdapterNames names;
  AdapterSlots slots;
  std::int64_t rank = 0, in = 0, out = 0;  // elements of a row, on this rank
};

// x A^T: what backward reads beside x.
Operand adapter_low(Writer& w, const Adapter& adapter, const Operand& x);
// y += low B^T.
void add_adapter(Writer& w, const Adapter& adapter, const Operand& low, const Operand& y);
// dy B, added to dx, when there is one, through A.
Operand adapter_input_gradient(Writer& w, const Adapter& adapter, const Operand& dy,
                               const Operand& dx);
struct AdapterGradients {
  Operand dy, d_low, x, low;
};
void adapter_weight_gradients(Writer& w, const Adapter& adapter, const AdapterGradients& from);

}  // namespace trireme::planner::lowering
