#include "planner/lower/adapters.h"

namespace trireme::planner::lowering {
Operand adapter_low(Writer& w, const Adapter& adapter, const Operand& x) {
  const std::int64_t rows = x.count / adapter.in;
  const Operand low =
      linear(w, adapter.names.low, x, adapter.slots.down, rows, adapter.in, adapter.rank);
  return low;
}

void add_adapter(Writer& w, const Adapter& adapter, const Operand& low, const Operand& y) {
  w.builder.compute(adapter.names.add, Kernel::kMatmul,
                    {low.count / adapter.rank, adapter.out, adapter.rank, 0, 1, 1},
                    {low, w.units.weight(adapter.slots.up), y});
}

Operand adapter_input_gradient(Writer& w, const Adapter& adapter, const Operand& dy,
                               const Operand& dx) {
  const std::int64_t rows = dy.count / adapter.out;
  const Operand d_low = linear_input_gradient(w, adapter.names.d_low, dy, adapter.slots.up, rows,
                                              adapter.rank, adapter.out);
  if (present(dx)) {
    w.builder.compute(adapter.names.d_input, Kernel::kMatmul,
                      {rows, adapter.in, adapter.rank, 0, 0, 1},
                      {d_low, w.units.weight(adapter.slots.down), dx});
  }
  return d_low;
}

void adapter_weight_gradients(Writer& w, const Adapter& adapter, const AdapterGradients& from) {
  const std::int64_t rows = from.low.count / adapter.rank;
  linear_weight_gradient(w, adapter.names.up, from.dy, from.low, adapter.slots.up, rows,
                         adapter.rank, adapter.out);
  linear_weight_gradient(w, adapter.names.down, from.d_low, from.x, adapter.slots.down, rows,
                         adapter.in, adapter.rank);
}

}  // namespace trireme::planner::lowering
