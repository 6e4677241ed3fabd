#include "planner/lower/narrow.h"

#include <map>
#include <string>

#include "core/check.h"
#include "planner/plan/narrow.h"

namespace trireme::planner::lowering {
namespace {

// Of the passes beside a product, and of the scales that those which cast by blocks write.
struct PassNames {
  std::string scale, cast, turned, turned_scale;

  explicit PassNames(const std::string& of)
      : scale(of + "_scale"),
        cast(of + "_cast"),
        turned(of + "_turned"),
        turned_scale(of + "_turned_scale") {}
};

struct ProductNames {
  PassNames input, weight, gradient;

  explicit ProductNames(const std::string& of)
      : input(of + "_input"), weight(of + "_weight"), gradient("d_" + of) {}
};

// They live as long as the program: builders keep them by their address.
const ProductNames& names_of(const LayerProduct& product) {
  static const std::map<std::string_view, ProductNames> kNames = [] {
    std::map<std::string_view, ProductNames> names;
    for (const char* of :
         {"qkv", "attention_output", "mlp_up", "mlp_down", "q_down", "q_up", "kv_down",
          "rotary_key", "kv_up", "shared_up", "shared_down", "experts_up", "experts_down"}) {
      names.emplace(of, ProductNames(of));
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

// A matrix of a product, or the rows that came to its experts, and how it becomes codes.
class Source {
 public:
  using Tensor = DelayedScales::Tensor;

  Source(Writer& w, const LayerProduct& product, const Operand& x, Tensor tensor)
      : w_(w),
        product_(product),
        x_(x),
        tensor_(tensor),
        recipe_(w.job.framework.fp8_recipe),
        routed_(tensor == Tensor::kWeight ? nullptr : product.routed),
        rows_(tensor == Tensor::kWeight ? rows_of_weight(product) : product.rows),
        width_(tensor == Tensor::kGradient ? product.out : product.in),
        names_(tensor == Tensor::kInput    ? names_of(product).input
               : tensor == Tensor::kWeight ? names_of(product).weight
                                           : names_of(product).gradient) {}

  // What is cast with; by blocks none.
  [[nodiscard]] Operand scale() const {
    if (recipe_ == Fp8Recipe::kBlockwise) {
      return {};
    }
    if (recipe_ == Fp8Recipe::kDelayed) {
      return w_.delayed.scale(product_.weight, tensor_);
    }
    const Operand scale = w_.builder.buffer(names_.scale, 1, ElementType::kMaster);
    if (routed_ == nullptr) {
      w_.builder.compute(names_.scale, Kernel::kNarrowScale, {x_.count, is_gradient()},
                         {x_, scale});
    } else {
      write(names_.scale, Kernel::kExpertNarrowScale, {x_, routed_->counts, scale});
    }
    return scale;
  }
  [[nodiscard]] NarrowCodes rows(const Operand& scale) const {
    const NarrowCodes to = row_codes(scale);
    if (recipe_ == Fp8Recipe::kBlockwise) {
      write(names_.cast, Kernel::kBlockCast, {x_, to.codes, to.scale});
    } else if (recipe_ == Fp8Recipe::kDelayed) {
      write_noting(names_.cast, {Kernel::kDelayedCast, Kernel::kExpertDelayedCast}, scale,
                   to.codes);
    } else if (routed_ == nullptr) {
      write(names_.cast, Kernel::kNarrowCast, {x_, scale, to.codes});
    } else {
      write(names_.cast, Kernel::kExpertNarrowCast, {x_, scale, routed_->counts, to.codes});
    }
    return to;
  }
  // After the rows, which noted what delayed scaling wants to know.
  [[nodiscard]] NarrowCodes turned(const Operand& scale) const {
    const NarrowCodes to = turned_codes(scale);
    if (recipe_ == Fp8Recipe::kBlockwise) {
      write(names_.turned, Kernel::kBlockTurned, {x_, to.codes, to.scale});
    } else if (routed_ == nullptr) {
      write(names_.turned, Kernel::kNarrowTurned, {x_, scale, to.codes});
    } else {
      write(names_.turned, Kernel::kExpertNarrowTurned, {x_, scale, routed_->counts, to.codes});
    }
    return to;
  }
  // Both in one pass; returns the rows.
  [[nodiscard]] NarrowCodes both(const Operand& scale, NarrowCodes& turned) const {
    const NarrowCodes to = row_codes(scale);
    turned = turned_codes(scale);
    if (recipe_ == Fp8Recipe::kBlockwise) {
      write(names_.cast, Kernel::kBlockBoth, {x_, to.codes, to.scale, turned.codes, turned.scale});
    } else if (recipe_ == Fp8Recipe::kDelayed) {
      write_noting(names_.cast, {Kernel::kDelayedBoth, Kernel::kExpertDelayedBoth}, scale, to.codes,
                   &turned.codes);
    } else if (routed_ == nullptr) {
      write(names_.cast, Kernel::kNarrowBoth, {x_, scale, to.codes, turned.codes});
    } else {
      write(names_.cast, Kernel::kExpertNarrowBoth,
            {x_, scale, routed_->counts, to.codes, turned.codes});
    }
    return to;
  }

 private:
  struct Kernels {
    Kernel whole, routed;
  };

  static std::int64_t rows_of_weight(const LayerProduct& product) {
    return product.routed != nullptr ? product.routed->experts * product.out : product.out;
  }
  [[nodiscard]] std::int64_t is_gradient() const { return tensor_ == Tensor::kGradient ? 1 : 0; }
  [[nodiscard]] Operand scales(const std::string& name, std::int64_t rows,
                               std::int64_t columns) const {
    return w_.builder.buffer(name, block_scales(rows, columns, tensor_ == Tensor::kWeight),
                             ElementType::kMaster);
  }
  [[nodiscard]] NarrowCodes row_codes(const Operand& scale) const {
    const Operand codes = codes_of(w_, names_.cast, x_.count);
    return {codes, recipe_ == Fp8Recipe::kBlockwise ? scales(names_.scale, rows_, width_) : scale};
  }
  [[nodiscard]] NarrowCodes turned_codes(const Operand& scale) const {
    const Operand codes = codes_of(
        w_, names_.turned,
        routed_ == nullptr ? x_.count : width_ * narrow_width(routed_->room, routed_->experts));
    return {codes,
            recipe_ == Fp8Recipe::kBlockwise ? scales(names_.turned_scale, width_, rows_) : scale};
  }
  void write(const std::string& name, Kernel kernel,
             std::initializer_list<Operand> operands) const {
    if (routed_ != nullptr) {
      w_.builder.compute(name, kernel,
                         {rows_, width_, is_gradient(), routed_->senders, routed_->experts},
                         operands);
    } else {
      const std::int64_t square = tensor_ == Tensor::kWeight ? 1 : 0;
      w_.builder.compute(name, kernel,
                         {rows_, width_, recipe_ == Fp8Recipe::kBlockwise ? square : is_gradient()},
                         operands);
    }
  }
  // With delayed scaling.
  void write_noting(const std::string& name, const Kernels& kernels, const Operand& scale,
                    const Operand& codes, const Operand* turned = nullptr) const {
    const Operand largest = w_.delayed.largest(product_.weight, tensor_);
    if (routed_ == nullptr && turned == nullptr) {
      write(name, kernels.whole, {x_, scale, largest, codes});
    } else if (routed_ == nullptr) {
      write(name, kernels.whole, {x_, scale, largest, codes, *turned});
    } else if (turned == nullptr) {
      write(name, kernels.routed, {x_, scale, routed_->counts, largest, codes});
    } else {
      write(name, kernels.routed, {x_, scale, routed_->counts, largest, codes, *turned});
    }
  }

  Writer& w_;
  const LayerProduct& product_;
  const Operand& x_;
  Tensor tensor_;
  Fp8Recipe recipe_;
  const Routed* routed_;
  std::int64_t rows_, width_;
  const PassNames& names_;
};

struct Extents {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t accumulate = 0, gradient = 0, summed = 0;  // summed: over the rows
};

void multiply(Writer& w, std::string_view name, const Routed* routed, const Extents& e,
              const NarrowCodes& a, const NarrowCodes& b, const Operand& output) {
  if (w.job.framework.fp8_recipe == Fp8Recipe::kBlockwise) {
    w.builder.compute(name, Kernel::kBlockMatmul, {e.m, e.n, e.k, e.accumulate, 1 - e.summed},
                      {a.codes, a.scale, b.codes, b.scale, output});
    return;
  }
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

// For all micro-batches of the step.
Operand weight_scale(Writer& w, const LayerProduct& product, const Source& weight) {
  Operand& scale = w.units.narrow_scale(product.weight);
  if (!present(scale)) {
    scale = weight.scale();
  }
  return scale;
}

Operand narrow_forward(Writer& w, std::string_view name, const LayerProduct& product,
                       const Operand& x, NarrowState& state) {
  const Operand matrix = w.units.weight(product.weight);
  const Source weight(w, product, matrix, Source::Tensor::kWeight);
  if (!present(state.rows.codes)) {
    cast_input(w, product, x, state);
  }
  const NarrowCodes rows = weight.rows(weight_scale(w, product, weight));
  const Operand y = result(w, name, product, product.out);
  multiply(w, name, product.routed, {product.rows, product.out, product.in}, state.rows, rows, y);
  state.rows = {};
  return y;
}

Operand narrow_input_gradient(Writer& w, std::string_view name, const LayerProduct& product,
                              const Operand& dy, NarrowState& state, const Operand& into) {
  const Operand matrix = w.units.weight(product.weight);
  const Source weight(w, product, matrix, Source::Tensor::kWeight);
  const Operand of_weight = weight_scale(w, product, weight);
  const Source gradient(w, product, dy, Source::Tensor::kGradient);
  const Operand scale = gradient.scale();
  const NarrowCodes rows = w.units.is_trained(product.weight) ? gradient.both(scale, state.gradient)
                                                              : gradient.rows(scale);
  const NarrowCodes turned = weight.turned(of_weight);
  const bool adds = present(into);
  const Operand dx = adds ? into : result(w, name, product, product.in);
  multiply(w, name, product.routed, {product.rows, product.in, product.out, adds ? 1 : 0, 1}, rows,
           turned, dx);
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
  multiply(w, name, product.routed,
           {product.out, product.in, product.rows, target.accumulate, 1, 1}, state.gradient,
           state.input, target.operand);
  w.builder.origin.phase = before;
  state = {};
}

}  // namespace

void cast_input(Writer& w, const LayerProduct& product, const Operand& x, NarrowState& state) {
  if (!multiplies_narrow(w.job)) {
    return;
  }
  const Source input(w, product, x, Source::Tensor::kInput);
  state.input_scale = input.scale();
  state.rows = product.keeps_codes && w.units.is_trained(product.weight)
                   ? input.both(state.input_scale, state.input)
                   : input.rows(state.input_scale);
}

void turn_input(Writer& w, const LayerProduct& product, const Operand& x, NarrowState& state) {
  if (!multiplies_narrow(w.job) || present(state.input.codes)) {
    return;
  }
  const Phase before = w.builder.origin.phase;
  w.builder.origin.phase = Phase::kWeightGradient;
  const Source input(w, product, x, Source::Tensor::kInput);
  if (!present(state.input_scale)) {  // of a layer that is repeated up to this product
    state.input_scale = input.scale();
  }
  state.input = input.turned(state.input_scale);
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
