#include "planner/lower/narrow.h"

#include <map>
#include <string>

#include "core/check.h"
#include "planner/plan/narrow.h"

namespace trireme::planner::lowering {
namespace {

// Of the passes beside a product.
struct PassNames {
  std::string input_scale, input_cast, input_turned;
  std::string weight_scale, weight_cast, weight_turned;
  std::string gradient_scale, gradient_cast, gradient_turned;

  explicit PassNames(const std::string& of)
      : input_scale(of + "_input_scale"),
        input_cast(of + "_input_cast"),
        input_turned(of + "_input_turned"),
        weight_scale(of + "_weight_scale"),
        weight_cast(of + "_weight_cast"),
        weight_turned(of + "_weight_turned"),
        gradient_scale("d_" + of + "_scale"),
        gradient_cast("d_" + of + "_cast"),
        gradient_turned("d_" + of + "_turned") {}
};

// They live as long as the program: builders keep them by their address.
const PassNames& names_of(const LayerProduct& product) {
  static const std::map<std::string_view, PassNames> kNames = [] {
    std::map<std::string_view, PassNames> names;
    for (const char* of :
         {"qkv", "attention_output", "mlp_up", "mlp_down", "q_down", "q_up", "kv_down",
          "rotary_key", "kv_up", "shared_up", "shared_down", "experts_up", "experts_down"}) {
      names.emplace(of, PassNames(of));
    }
    return names;
  }();
  const auto found = kNames.find(product.name);
  TRIREME_CHECK(found != kNames.end());
  return found->second;
}

Operand codes_of(Writer& w, const std::string& name, std::int64_t elements) {
  return w.builder.buffer(name, elements, ElementType::kNarrow);
}

Operand scale_of(Writer& w, const std::string& name, const Operand& x, bool gradient = false) {
  const Operand scale = w.builder.buffer(name, 1, ElementType::kMaster);
  w.builder.compute(name, Kernel::kNarrowScale, {x.count, gradient ? 1 : 0}, {x, scale});
  return scale;
}

// A weight [rows, x.count / rows], as it is or transposed.
Operand cast(Writer& w, const std::string& name, Kernel kernel, const Operand& x, std::int64_t rows,
             const Operand& scale) {
  const Operand codes = codes_of(w, name, x.count);
  w.builder.compute(name, kernel, {rows, x.count / rows, 0}, {x, scale, codes});
  return codes;
}

// Of what a product's rows hold: its input, or its output's gradient.
class Rows {
 public:
  Rows(Writer& w, const LayerProduct& product, const Operand& x, bool gradient)
      : w_(w),
        product_(product),
        x_(x),
        width_(gradient ? product.out : product.in),
        gradient_(gradient ? 1 : 0) {}

  [[nodiscard]] Operand scale(const std::string& name) const {
    if (product_.routed == nullptr) {
      return scale_of(w_, name, x_, gradient_ != 0);
    }
    const Operand scale = w_.builder.buffer(name, 1, ElementType::kMaster);
    write(name, Kernel::kExpertNarrowScale, {x_, product_.routed->counts, scale});
    return scale;
  }
  [[nodiscard]] Operand rows(const std::string& name, const Operand& scale) const {
    const Operand codes = codes_of(w_, name, x_.count);
    if (product_.routed == nullptr) {
      write(name, Kernel::kNarrowCast, {x_, scale, codes});
    } else {
      write(name, Kernel::kExpertNarrowCast, {x_, scale, product_.routed->counts, codes});
    }
    return codes;
  }
  [[nodiscard]] Operand turned(const std::string& name, const Operand& scale) const {
    const Operand codes = turned_codes(name);
    if (product_.routed == nullptr) {
      write(name, Kernel::kNarrowTurned, {x_, scale, codes});
    } else {
      write(name, Kernel::kExpertNarrowTurned, {x_, scale, product_.routed->counts, codes});
    }
    return codes;
  }
  // Both in one pass; returns the rows.
  [[nodiscard]] Operand both(const std::string& name, const std::string& turned_name,
                             const Operand& scale, Operand& turned) const {
    const Operand codes = codes_of(w_, name, x_.count);
    turned = turned_codes(turned_name);
    if (product_.routed == nullptr) {
      write(name, Kernel::kNarrowBoth, {x_, scale, codes, turned});
    } else {
      write(name, Kernel::kExpertNarrowBoth, {x_, scale, product_.routed->counts, codes, turned});
    }
    return codes;
  }

 private:
  [[nodiscard]] Operand turned_codes(const std::string& name) const {
    const Routed* routed = product_.routed;
    return codes_of(
        w_, name,
        routed == nullptr ? x_.count : width_ * narrow_width(routed->room, routed->experts));
  }
  void write(const std::string& name, Kernel kernel,
             std::initializer_list<Operand> operands) const {
    if (const Routed* routed = product_.routed) {
      w_.builder.compute(name, kernel,
                         {product_.rows, width_, gradient_, routed->senders, routed->experts},
                         operands);
    } else {
      w_.builder.compute(name, kernel, {product_.rows, width_, gradient_}, operands);
    }
  }

  Writer& w_;
  const LayerProduct& product_;
  const Operand& x_;
  std::int64_t width_, gradient_;
};

struct Codes {
  const Operand& codes;
  const Operand& scale;
};

struct Extents {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t accumulate = 0, gradient = 0, summed = 0;  // summed: over the rows
};

void multiply(Writer& w, std::string_view name, const Routed* routed, const Extents& e,
              const Codes& a, const Codes& b, const Operand& output) {
  if (routed == nullptr) {
    w.builder.compute(name, Kernel::kNarrowMatmul, {e.m, e.n, e.k, e.accumulate, e.gradient},
                      {a.codes, a.scale, b.codes, b.scale, output});
    return;
  }
  w.builder.compute(
      name, Kernel::kExpertNarrowMatmul,
      {e.m, e.n, e.k, e.summed, e.accumulate, e.gradient, routed->senders, routed->experts},
      {a.codes, a.scale, b.codes, b.scale, output, routed->counts});
}

// Elements of `width` for each row that there is room for.
Operand result(Writer& w, std::string_view name, const LayerProduct& product, std::int64_t width) {
  const std::int64_t rows = product.routed != nullptr ? product.routed->room : product.rows;
  return w.builder.buffer(name, rows * width, ElementType::kCompute);
}

std::int64_t rows_of_weight(const LayerProduct& product) {
  return product.routed != nullptr ? product.routed->experts * product.out : product.out;
}

// For all micro-batches of the step.
Operand weight_scale(Writer& w, const LayerProduct& product) {
  Operand& scale = w.units.narrow_scale(product.weight);
  if (!present(scale)) {
    scale = scale_of(w, names_of(product).weight_scale, w.units.weight(product.weight));
  }
  return scale;
}

Operand narrow_forward(Writer& w, std::string_view name, const LayerProduct& product,
                       const Operand& x, NarrowState& state) {
  const PassNames& names = names_of(product);
  const Operand weight = w.units.weight(product.weight);
  if (!present(state.rows)) {
    cast_input(w, product, x, state);
  }
  const Operand scale = weight_scale(w, product);
  const Operand rows =
      cast(w, names.weight_cast, Kernel::kNarrowCast, weight, rows_of_weight(product), scale);
  const Operand y = result(w, name, product, product.out);
  multiply(w, name, product.routed, {product.rows, product.out, product.in},
           {state.rows, state.input_scale}, {rows, scale}, y);
  state.rows = {};
  return y;
}

Operand narrow_input_gradient(Writer& w, std::string_view name, const LayerProduct& product,
                              const Operand& dy, NarrowState& state, const Operand& into) {
  const PassNames& names = names_of(product);
  const Operand weight = w.units.weight(product.weight);
  const Operand scale = weight_scale(w, product);
  const Rows gradient(w, product, dy, true);
  state.gradient_scale = gradient.scale(names.gradient_scale);
  const Operand rows = w.units.is_trained(product.weight)
                           ? gradient.both(names.gradient_cast, names.gradient_turned,
                                           state.gradient_scale, state.gradient)
                           : gradient.rows(names.gradient_cast, state.gradient_scale);
  const Operand turned =
      cast(w, names.weight_turned, Kernel::kNarrowTurned, weight, rows_of_weight(product), scale);
  const bool adds = present(into);
  const Operand dx = adds ? into : result(w, name, product, product.in);
  multiply(w, name, product.routed, {product.rows, product.in, product.out, adds ? 1 : 0, 1},
           {rows, state.gradient_scale}, {turned, scale}, dx);
  return dx;
}

void narrow_weight_gradient(Writer& w, std::string_view name, const LayerProduct& product,
                            const Operand& x, NarrowState& state) {
  if (!w.units.is_trained(product.weight)) {
    return;
  }
  const Phase before = w.builder.origin.phase;
  w.builder.origin.phase = Phase::kWeightGradient;
  turn_input(w, product, x, state);
  const GradientTarget target = w.units.gradient(product.weight);
  multiply(
      w, name, product.routed, {product.out, product.in, product.rows, target.accumulate, 1, 1},
      {state.gradient, state.gradient_scale}, {state.input, state.input_scale}, target.operand);
  w.builder.origin.phase = before;
  state = {};
}

}  // namespace

void cast_input(Writer& w, const LayerProduct& product, const Operand& x, NarrowState& state) {
  if (!multiplies_narrow(w.job)) {
    return;
  }
  const PassNames& names = names_of(product);
  const Rows input(w, product, x, false);
  state.input_scale = input.scale(names.input_scale);
  state.rows =
      product.keeps_codes && w.units.is_trained(product.weight)
          ? input.both(names.input_cast, names.input_turned, state.input_scale, state.input)
          : input.rows(names.input_cast, state.input_scale);
}

void turn_input(Writer& w, const LayerProduct& product, const Operand& x, NarrowState& state) {
  if (!multiplies_narrow(w.job) || present(state.input)) {
    return;
  }
  const PassNames& names = names_of(product);
  const Phase before = w.builder.origin.phase;
  w.builder.origin.phase = Phase::kWeightGradient;
  const Rows input(w, product, x, false);
  if (!present(state.input_scale)) {  // of a layer that is repeated up to this product
    state.input_scale = input.scale(names.input_scale);
  }
  state.input = input.turned(names.input_turned, state.input_scale);
  w.builder.origin.phase = before;
}

void share_input(const NarrowState& from, NarrowState& state) {
  state.input_scale = from.input_scale;
  state.rows = from.rows;
  state.input = from.input;
}

Operand product(Writer& w, std::string_view name, const LayerProduct& product, const Operand& x,
                NarrowState& state) {
  return multiplies_narrow(w.job)
             ? narrow_forward(w, name, product, x, state)
             : linear(w, name, x, product.weight, product.rows, product.in, product.out);
}

Operand product_input_gradient(Writer& w, std::string_view name, const LayerProduct& product,
                               const Operand& dy, NarrowState& state, const Operand& into) {
  if (multiplies_narrow(w.job)) {
    return narrow_input_gradient(w, name, product, dy, state, into);
  }
  if (!present(into)) {
    return linear_input_gradient(w, name, dy, product.weight, product.rows, product.in,
                                 product.out);
  }
  w.builder.compute(name, Kernel::kMatmul, {product.rows, product.in, product.out, 0, 0, 1},
                    {dy, w.units.weight(product.weight), into});
  return into;
}

void product_weight_gradient(Writer& w, std::string_view name, const LayerProduct& product,
                             const Operand& dy, const Operand& x, NarrowState& state) {
  if (multiplies_narrow(w.job)) {
    narrow_weight_gradient(w, name, product, x, state);
  } else {
    linear_weight_gradient(w, name, dy, x, product.weight, product.rows, product.in, product.out);
  }
}

}  // namespace trireme::planner::lowering
