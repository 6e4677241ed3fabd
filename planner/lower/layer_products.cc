#include "planner/lower/layer.h"

namespace trireme::planner::lowering {

LayerProduct LayerWriter::shape_of(Product product) const {
  const Shape& s = w_.shape;
  switch (product) {
    case Product::kQkv:
      return {"qkv", slots_.qkv, s.tokens, s.hidden, s.qkv, codes_.qkv};
    case Product::kOutput:
      return {"attention_output", slots_.output, s.tokens, s.attention, s.hidden};
    case Product::kUp:
      return {"mlp_up", slots_.up, s.tokens, s.hidden, s.up, codes_.up};
    case Product::kDown:
      break;
  }
  return {"mlp_down", slots_.down, s.tokens, s.ffn, s.hidden, codes_.down};
}

// Those of which the codes are kept.
void LayerWriter::drop_inputs(LayerState& state) const {
  if (codes_.qkv) {
    state.attention_norm.y = state.gathered_attention_input = {};
  }
  if (codes_.up && !sparse_) {
    state.mlp_norm.y = state.gathered_mlp_input = {};
  }
  if (codes_.down) {
    state.activation = {};
  }
}

Operand LayerWriter::multiply(const char* name, Product product, const Operand& x,
                              LayerState& state) {
  return lowering::product(w_, name, shape_of(product), x, narrow_of(product, state));
}

Operand LayerWriter::input_gradient(const char* name, Product product, const Operand& dy,
                                    LayerState& state) {
  return product_input_gradient(w_, name, shape_of(product), dy, narrow_of(product, state));
}

void LayerWriter::weight_gradient(const char* name, Product product, const Operand& dy,
                                  const Operand& x, LayerState& state) {
  product_weight_gradient(w_, name, shape_of(product), dy, x, narrow_of(product, state));
}

}  // namespace trireme::planner::lowering
