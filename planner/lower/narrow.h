// Products in 8 bits: what is cast, when, and what a product keeps from its forward for its
// backward. Each tensor has the scale that its own largest value asks for, worked out before it is
// cast (current scaling): of the input and the weight once in forward, of the gradient once in
// backward. Hopper multiplies codes whose inner dimension is contiguous in both, so backward reads
// transposes: of the gradient, and of an input that is kept so, beside its rows in one pass; of the
// weight and other inputs, cast again from 16 bits. A frozen weight has no gradient, and needs
// neither of its input and gradient.
#pragma once

#include "planner/lower/adapters.h"
#include "planner/lower/parameters.h"
#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

struct NarrowState {
  Operand input_scale, weight_scale;
  Operand input;  // transposed, where it is kept so
  // From the input's gradient to the weight's.
  Operand gradient, gradient_scale;
};

// One product y[rows, out] = x[rows, in] W^T of a layer.
struct NarrowProduct {
  Product product = Product::kQkv;
  const Slot& weight;
  std::int64_t rows = 0, in = 0, out = 0;
  bool keeps_codes = false;  // of its input
};

Operand narrow_linear(Writer& w, std::string_view name, const NarrowProduct& product,
                      const Operand& x, NarrowState& state);
Operand narrow_input_gradient(Writer& w, std::string_view name, const NarrowProduct& product,
                              const Operand& dy, NarrowState& state);
// After the input's gradient; ends what the product kept. `x` is read where its codes are not kept.
void narrow_weight_gradient(Writer& w, std::string_view name, const NarrowProduct& product,
                            const Operand& x, NarrowState& state);

}  // namespace trireme::planner::lowering
