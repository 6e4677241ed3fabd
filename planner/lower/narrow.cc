#include "planner/lower/narrow.h"

#include <array>

namespace trireme::planner::lowering {
namespace {

// Of the passes beside a product.
struct PassNames {
  const char* input_scale;
  const char* input_cast;
  const char* input_turned;
  const char* weight_scale;
  const char* weight_cast;
  const char* weight_turned;
  const char* gradient_scale;
  const char* gradient_cast;
  const char* gradient_turned;
};

const PassNames& names_of(const NarrowProduct& product) {
  static constexpr std::array<PassNames, kProductCount> kNames = {
      {{"qkv_input_scale", "qkv_input_cast", "qkv_input_turned", "qkv_weight_scale",
        "qkv_weight_cast", "qkv_weight_turned", "d_qkv_scale", "d_qkv_cast", "d_qkv_turned"},
       {"attention_output_input_scale", "attention_output_input_cast",
        "attention_output_input_turned", "attention_output_weight_scale",
        "attention_output_weight_cast", "attention_output_weight_turned",
        "d_attention_output_scale", "d_attention_output_cast", "d_attention_output_turned"},
       {"mlp_up_input_scale", "mlp_up_input_cast", "mlp_up_input_turned", "mlp_up_weight_scale",
        "mlp_up_weight_cast", "mlp_up_weight_turned", "d_mlp_up_scale", "d_mlp_up_cast",
        "d_mlp_up_turned"},
       {"mlp_down_input_scale", "mlp_down_input_cast", "mlp_down_input_turned",
        "mlp_down_weight_scale", "mlp_down_weight_cast", "mlp_down_weight_turned",
        "d_mlp_down_scale", "d_mlp_down_cast", "d_mlp_down_turned"}}};
  return kNames[static_cast<std::size_t>(product.product)];
}

Operand scale_of(Writer& w, const char* name, const Operand& x, bool gradient) {
  const Operand scale = w.builder.buffer(name, 1, ElementType::kMaster);
  w.builder.compute(name, Kernel::kNarrowScale, {x.count, gradient ? 1 : 0}, {x, scale});
  return scale;
}

// Both ways; returns the rows and puts the transpose into `turned`.
Operand cast_both(Writer& w, const char* name, const char* turned_name, const Operand& x,
                  std::int64_t rows, bool gradient, const Operand& scale, Operand& turned) {
  const Operand codes = w.builder.buffer(name, x.count, ElementType::kNarrow);
  turned = w.builder.buffer(turned_name, x.count, ElementType::kNarrow);
  w.builder.compute(name, Kernel::kNarrowBoth, {rows, x.count / rows, gradient ? 1 : 0},
                    {x, scale, codes, turned});
  return codes;
}

// x [rows, x.count / rows], as it is or transposed.
Operand cast(Writer& w, const char* name, Kernel kernel, const Operand& x, std::int64_t rows,
             const Operand& scale, bool gradient = false) {
  const Operand codes = w.builder.buffer(name, x.count, ElementType::kNarrow);
  w.builder.compute(name, kernel, {rows, x.count / rows, gradient ? 1 : 0}, {x, scale, codes});
  return codes;
}

struct Codes {
  const Operand& codes;
  const Operand& scale;
};

void multiply(Writer& w, std::string_view name, std::initializer_list<std::int64_t> dims,
              const Codes& a, const Codes& b, const Operand& output) {
  w.builder.compute(name, Kernel::kNarrowMatmul, dims,
                    {a.codes, a.scale, b.codes, b.scale, output});
}

}  // namespace

Operand narrow_linear(Writer& w, std::string_view name, const NarrowProduct& product,
                      const Operand& x, NarrowState& state) {
  const PassNames& names = names_of(product);
  const Operand weight = w.units.weight(product.weight);
  state.input_scale = scale_of(w, names.input_scale, x, false);
  const Operand input =
      product.keeps_codes && w.units.is_trained(product.weight)
          ? cast_both(w, names.input_cast, names.input_turned, x, product.rows, false,
                      state.input_scale, state.input)
          : cast(w, names.input_cast, Kernel::kNarrowCast, x, product.rows, state.input_scale);
  state.weight_scale = scale_of(w, names.weight_scale, weight, false);
  const Operand rows =
      cast(w, names.weight_cast, Kernel::kNarrowCast, weight, product.out, state.weight_scale);
  const Operand y = w.builder.buffer(name, product.rows * product.out, ElementType::kCompute);
  multiply(w, name, {product.rows, product.out, product.in, 0, 0}, {input, state.input_scale},
           {rows, state.weight_scale}, y);
  return y;
}

Operand narrow_input_gradient(Writer& w, std::string_view name, const NarrowProduct& product,
                              const Operand& dy, NarrowState& state) {
  const PassNames& names = names_of(product);
  if (!present(state.weight_scale)) {  // of a layer that is repeated up to this product
    state.weight_scale = scale_of(w, names.weight_scale, w.units.weight(product.weight), false);
  }
  state.gradient_scale = scale_of(w, names.gradient_scale, dy, true);
  const Operand rows = w.units.is_trained(product.weight)
                           ? cast_both(w, names.gradient_cast, names.gradient_turned, dy,
                                       product.rows, true, state.gradient_scale, state.gradient)
                           : cast(w, names.gradient_cast, Kernel::kNarrowCast, dy, product.rows,
                                  state.gradient_scale, true);
  const Operand weight = cast(w, names.weight_turned, Kernel::kNarrowTurned,
                              w.units.weight(product.weight), product.out, state.weight_scale);
  const Operand dx = w.builder.buffer(name, product.rows * product.in, ElementType::kCompute);
  multiply(w, name, {product.rows, product.in, product.out, 0, 1}, {rows, state.gradient_scale},
           {weight, state.weight_scale}, dx);
  return dx;
}

void narrow_weight_gradient(Writer& w, std::string_view name, const NarrowProduct& product,
                            const Operand& x, NarrowState& state) {
  if (!w.units.is_trained(product.weight)) {
    return;
  }
  const PassNames& names = names_of(product);
  const Phase before = w.builder.origin.phase;
  w.builder.origin.phase = Phase::kWeightGradient;
  if (!present(state.input)) {
    if (!present(state.input_scale)) {
      state.input_scale = scale_of(w, names.input_scale, x, false);
    }
    state.input =
        cast(w, names.input_turned, Kernel::kNarrowTurned, x, product.rows, state.input_scale);
  }
  const GradientTarget target = w.units.gradient(product.weight);
  multiply(w, name, {product.out, product.in, product.rows, target.accumulate, 1},
           {state.gradient, state.gradient_scale}, {state.input, state.input_scale},
           target.operand);
  w.builder.origin.phase = before;
  state = {};
}

}  // namespace trireme::planner::lowering
