// A layer's products with its weights, in 16 bits or in 8. Of those in 8: what is cast, when, and
// what a product keeps from its forward for its backward. Each tensor has the scale that its own
// largest value asks for, worked out before it is cast (current scaling): of the weight once a
// step, of the input once in forward, of the gradient once in backward. Hopper multiplies codes
// whose inner dimension is contiguous in both, so backward reads transposes: of the gradient, and
// of an input that is kept so, beside its rows in one pass; of the weight and other inputs, cast
// again from 16 bits. A frozen weight has no gradient, and needs neither of its input and gradient.
// Of a rank's routed experts all weights are one tensor, and so are all rows that came to them.
//
// With delayed scaling the scale is there before (delayed.h), and a cast notes what it saw. By
// blocks (the weight's 128 x 128, the others' 128 in a row) each cast finds its own scales, those
// of a transpose others than those of the rows.
#pragma once

#include <string_view>

#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

struct NarrowCodes {
  Operand codes, scale;
};

struct NarrowState {
  Operand input_scale;   // where one is found before it is cast
  NarrowCodes rows;      // the input, until the product
  NarrowCodes input;     // transposed, where it is kept so
  NarrowCodes gradient;  // transposed, from the input's gradient to the weight's
};

// Experts that multiply the rows that came to each of them, as `counts` says, by sender.
struct Routed {
  Operand counts;
  std::int64_t experts = 0, senders = 1;
  std::int64_t room = 0;  // for rows
};

// y[rows, out] = x[rows, in] W^T; of experts rows under an even load, and W[out, in] each.
struct LayerProduct {
  const char* name;  // of its passes in 8 bits; see narrow.cc
  Slot weight;
  std::int64_t rows = 0, in = 0, out = 0;
  bool keeps_codes = false;  // of its input
  const Routed* routed = nullptr;
};

Operand product(Writer& w, std::string_view name, const LayerProduct& product, const Operand& x,
                NarrowState& state);
// Products of one input: its codes are cast before the first of them, and transposed before their
// weight gradients, and shared by the others. Nothing in 16 bits.
void cast_input(Writer& w, const LayerProduct& product, const Operand& x, NarrowState& state);
void turn_input(Writer& w, const LayerProduct& product, const Operand& x, NarrowState& state);
void share_input(const NarrowState& from, NarrowState& state);
// `into`: what it is added to, when it is there.
Operand product_input_gradient(Writer& w, std::string_view name, const LayerProduct& product,
                               const Operand& dy, NarrowState& state, const Operand& into = {});
// After the input's gradient. `x` is read where its codes are not kept.
void product_weight_gradient(Writer& w, std::string_view name, const LayerProduct& product,
                             const Operand& dy, const Operand& x, NarrowState& state);

}  // namespace trireme::planner::lowering
