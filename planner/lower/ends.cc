#include "planner/lower/ends.h"

namespace trireme::planner::lowering {
namespace {

// The tensor group where it splits tokens.
std::int64_t token_group(const Writer& w) {
  return group_dim(w.shape.sequence_parallel ? w.groups.tensor : kNoGroup);
}

std::int64_t context_group(const Writer& w) {
  return group_dim(w.groups.context);
}

std::int64_t global_tokens(const Writer& w) {
  return w.plan.data_parallel() * w.plan.context * w.plan.micro_batches * w.shape.tokens;
}

Operand head_input(Writer& w, HeadState& state) {
  if (present(state.gathered_input)) {
    return state.gathered_input;
  }
  const bool has_norm = w.stage.final_norm.weight.count > 0;
  return gather_tokens(w, "head_input", has_norm ? state.norm.y : state.x);
}

}  // namespace

Operand embedding_forward(Writer& w, const Operand& tokens) {
  const Shape& s = w.shape;
  const Operand partial = w.builder.buffer("embedding", s.tokens * s.hidden, ElementType::kCompute);
  w.builder.compute("embedding", Kernel::kEmbeddingForward,
                    {s.tokens, s.hidden, s.vocabulary_rows, group_dim(w.groups.tensor)},
                    {tokens, w.units.weight(w.stage.embedding), partial});
  const Operand x = reduce_tokens(w, "embedding_reduce", partial);
  if (w.stage.positions.count > 0) {
    w.builder.compute("positions", Kernel::kPositionForward,
                      {s.local_tokens, s.hidden, s.sequence, w.stage.positions.count / s.hidden,
                       token_group(w), context_group(w)},
                      {x, w.units.weight(w.stage.positions)});
  }
  return x;
}

void embedding_backward(Writer& w, const Operand& tokens, const Operand& dy) {
  const Shape& s = w.shape;
  if (w.stage.positions.count > 0) {
    const GradientTarget target = w.units.gradient(w.stage.positions);
    w.builder.compute("positions_gradient", Kernel::kPositionBackward,
                      {s.local_tokens, s.hidden, s.sequence, w.stage.positions.count / s.hidden,
                       token_group(w), context_group(w), target.accumulate},
                      {dy, target.operand});
  }
  const Operand all = gather_tokens(w, "d_embedding", dy);
  const GradientTarget target = w.units.gradient(w.stage.embedding);
  w.builder.compute(
      "embedding_gradient", Kernel::kEmbeddingBackward,
      {s.tokens, s.hidden, s.vocabulary_rows, group_dim(w.groups.tensor), target.accumulate},
      {tokens, all, target.operand});
}

void head_forward(Writer& w, const Operand& x, const Operand& targets, const Operand& loss,
                  HeadState& state) {
  const Shape& s = w.shape;
  state.x = x;
  if (w.stage.final_norm.weight.count > 0) {
    state.norm = norm(w, "final_norm", x, w.stage.final_norm);
  }
  const Operand input = head_input(w, state);
  if (!w.job.framework.regather_in_backward) {
    state.gathered_input = input;
  }
  state.logits = linear(w, "head", input, w.stage.head, s.tokens, s.hidden, s.vocabulary_rows);
  const Operand own_maximum = w.builder.buffer("maximum", s.tokens, ElementType::kMaster);
  state.maximum = own_maximum;
  state.sums = w.builder.buffer("sums", 2 * s.tokens, ElementType::kMaster);
  w.builder.compute("logit_statistics", Kernel::kLogitStatistics,
                    {s.tokens, s.vocabulary_rows, s.vocabulary, group_dim(w.groups.tensor)},
                    {state.logits, targets, own_maximum, state.sums});
  if (w.groups.tensor != kNoGroup) {
    state.maximum = w.builder.buffer("global_maximum", s.tokens, ElementType::kMaster);
    w.builder.all_reduce("maximum_reduce", w.groups.tensor, Reduction::kMax, own_maximum,
                         state.maximum, Stream::kTensor);
    w.builder.compute("statistics_rescale", Kernel::kStatisticsRescale, {s.tokens},
                      {own_maximum, state.maximum, state.sums});
    w.builder.all_reduce("sums_reduce", w.groups.tensor, Reduction::kSum, state.sums, state.sums,
                         Stream::kTensor);
  }
  w.builder.compute("loss", Kernel::kCrossEntropyLoss, {s.tokens, global_tokens(w)},
                    {state.maximum, state.sums, loss});
}

Operand head_backward(Writer& w, const Operand& targets, HeadState& state, bool split) {
  const Shape& s = w.shape;
  w.builder.compute(
      "d_logits", Kernel::kCrossEntropyBackward,
      {s.tokens, s.vocabulary_rows, s.vocabulary, group_dim(w.groups.tensor), global_tokens(w)},
      {state.logits, state.maximum, state.sums, targets});
  const bool reads = !split && w.units.is_trained(w.stage.head);
  const Operand input = reads ? head_input(w, state) : Operand{};
  const Operand partial = linear_input_gradient(w, "d_head_input", state.logits, w.stage.head,
                                                s.tokens, s.hidden, s.vocabulary_rows);
  const Operand reduced = reduce_tokens(w, "d_head_reduce", partial);
  settle_tensor(w);
  if (!split) {
    linear_weight_gradient(w, "head_weight", state.logits, input, w.stage.head, s.tokens, s.hidden,
                           s.vocabulary_rows);
  }
  const bool has_norm = w.stage.final_norm.weight.count > 0;
  const Operand dx = has_norm ? norm_gradient(w, "final_norm_gradient", reduced, state.norm,
                                              w.stage.final_norm, {})
                              : reduced;
  if (!split) {
    state = {};
  }
  return dx;
}

void head_weight_gradient(Writer& w, HeadState& state) {
  const Shape& s = w.shape;
  if (!w.units.is_trained(w.stage.head)) {
    state = {};
    return;
  }
  const Operand input = head_input(w, state);
  linear_weight_gradient(w, "head_weight", state.logits, input, w.stage.head, s.tokens, s.hidden,
                         s.vocabulary_rows);
  state = {};
}

}  // namespace trireme::planner::lowering
