#include "planner/lower/layer.h"

namespace trireme::planner::lowering {

NarrowProduct LayerWriter::shape_of(Product product) const {
  const Shape& s = w_.shape;
  switch (product) {
    case Product::kQkv:
      return {product, slots_.qkv, s.tokens, s.hidden, s.qkv, codes_.qkv};
    case Product::kOutput:
      return {product, slots_.output, s.tokens, s.attention, s.hidden};
    case Product::kUp:
      return {product, slots_.up, s.tokens, s.hidden, s.up, codes_.up};
    case Product::kDown:
      break;
  }
  return {product, slots_.down, s.tokens, s.ffn, s.hidden, codes_.down};
}

// Those of which the codes are kept.
void LayerWriter::drop_inputs(LayerState& state) const {
  if (codes_.qkv) {
    state.attention_norm.y = state.gathered_attention_input = {};
  }
  if (codes_.up) {
    state.mlp_norm.y = state.gathered_mlp_input = {};
  }
  if (codes_.down) {
    state.activation = {};
  }
}

Operand LayerWriter::multiply(const char* name, Product product, const Operand& x,
                              LayerState& state) {
  const NarrowProduct p = shape_of(product);
  return narrow_ ? narrow_linear(w_, name, p, x, narrow_of(product, state))
                 : linear(w_, name, x, p.weight, p.rows, p.in, p.out);
}

Operand LayerWriter::input_gradient(const char* name, Product product, const Operand& dy,
                                    LayerState& state) {
  const NarrowProduct p = shape_of(product);
  return narrow_ ? narrow_input_gradient(w_, name, p, dy, narrow_of(product, state))
                 : linear_input_gradient(w_, name, dy, p.weight, p.rows, p.in, p.out);
}

void LayerWriter::weight_gradient(const char* name, Product product, const Operand& dy,
                                  const Operand& x, LayerState& state) {
  const NarrowProduct p = shape_of(product);
  if (narrow_) {
    narrow_weight_gradient(w_, name, p, x, narrow_of(product, state));
  } else {
    linear_weight_gradient(w_, name, dy, x, p.weight, p.rows, p.in, p.out);
  }
}

}  // namespace trireme::planner::lowering
