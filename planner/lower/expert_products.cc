// The products of a layer with experts: of routed ones in 16 bits or in 8, and the shapes of those
// that all tokens share.
#include "planner/lower/experts.h"

namespace trireme::planner::lowering {

Routed ExpertWriter::routed(const ExpertState& state) const {
  return {state.arrived, local_, ranks_.experts, w_.shape.expert_rows};
}

LayerProduct ExpertWriter::up_product(const Routed& routed) const {
  return {"experts_up", slots_.experts_up, slots_count_, w_.shape.hidden,
          up_,          codes_.experts_up, &routed};
}

LayerProduct ExpertWriter::down_product(const Routed& routed) const {
  return {"experts_down",  slots_.experts_down, slots_count_, ffn_,
          w_.shape.hidden, codes_.experts_down, &routed};
}

Operand ExpertWriter::multiply(const char* name, const LayerProduct& p, const Operand& rows,
                               NarrowState& state) {
  if (multiplies_narrow(w_.job)) {
    return product(w_, name, p, rows, state);
  }
  const Operand result = w_.builder.buffer(name, p.routed->room * p.out, ElementType::kCompute);
  w_.builder.compute(name, Kernel::kExpertMatmul,
                     {p.rows, p.out, p.in, 0, 1, 0, p.routed->senders, p.routed->experts},
                     {rows, w_.units.weight(p.weight), result, p.routed->counts});
  return result;
}

Operand ExpertWriter::input_gradient(const char* name, const LayerProduct& p, const Operand& d_rows,
                                     NarrowState& state) {
  if (multiplies_narrow(w_.job)) {
    return product_input_gradient(w_, name, p, d_rows, state);
  }
  const Operand result = w_.builder.buffer(name, p.routed->room * p.in, ElementType::kCompute);
  w_.builder.compute(name, Kernel::kExpertMatmul,
                     {p.rows, p.in, p.out, 0, 0, 0, p.routed->senders, p.routed->experts},
                     {d_rows, w_.units.weight(p.weight), result, p.routed->counts});
  return result;
}

void ExpertWriter::weight_gradient(const char* name, const LayerProduct& p, const Operand& d_rows,
                                   const Operand& rows, NarrowState& state) {
  if (multiplies_narrow(w_.job)) {
    product_weight_gradient(w_, name, p, d_rows, rows, state);
    return;
  }
  const Phase before = w_.builder.origin.phase;
  w_.builder.origin.phase = Phase::kWeightGradient;
  const GradientTarget target = w_.units.gradient(p.weight);
  w_.builder.compute(
      name, Kernel::kExpertMatmul,
      {p.out, p.in, p.rows, 1, 0, target.accumulate, p.routed->senders, p.routed->experts},
      {d_rows, rows, target.operand, p.routed->counts});
  w_.builder.origin.phase = before;
}

LayerProduct ExpertWriter::shared_up() const {
  return {"shared_up", slots_.shared_up, w_.shape.tokens, w_.shape.hidden, shared_up_};
}

LayerProduct ExpertWriter::shared_down() const {
  return {"shared_down", slots_.shared_down, w_.shape.tokens,
          shared_ffn_,   w_.shape.hidden,    codes_.shared_down};
}

}  // namespace trireme::planner::lowering
