#include "planner/lower/modelled_ends.h"

#include "planner/cost/written_passes.h"
#include "planner/plan/shape.h"

namespace trireme::planner::lowering {

using models::Half;

ModelledEnds::ModelledEnds(Writer& writer) : w_(writer) {
  const models::Transformer model = padded_model(w_.job, w_.plan);
  const models::Shard shard = shard_of(w_.job, w_.plan, w_.job.sequence);
  const models::Kernels kernels = kernels_of(w_.job);
  embedding_ = models::embedding_work(model, shard, kernels);
  head_ = models::head_work(model, shard, kernels);
  modules_ = model.multi_token_layers;
  write_out_passes(w_.job.framework, head_);
}

void ModelledEnds::products(const models::PassWork& work, const Operand& input,
                            const Operand& weight, const Operand& output) {
  for (const models::Matmul& product : work.matmuls) {
    write_product(w_, product, input, weight, output);
  }
}

Operand ModelledEnds::embedding_forward(const Operand& tokens) {
  const Shape& s = w_.shape;
  const Operand partial =
      w_.builder.buffer("embedding", s.tokens * s.hidden, ElementType::kCompute);
  w_.builder.modelled_pass("table", 0, Bytes(0),
                           {tokens, w_.units.weight(w_.stage.embedding), partial});
  write_passes(w_, "embedding", embedding_.forward, Half::kEnds, tokens, partial);
  const Operand x = reduce_tokens(w_, "embedding_reduce", partial);
  if (w_.stage.positions.count > 0) {
    w_.builder.modelled_pass("positions", 0, Bytes(0), {w_.units.weight(w_.stage.positions), x});
  }
  return x;
}

void ModelledEnds::embedding_backward(const Operand& tokens, const Operand& dy) {
  const Operand all = gather_tokens(w_, "d_embedding", dy);
  const GradientTarget table = w_.units.gradient(w_.stage.embedding);
  w_.builder.modelled_pass("table_gradient", 0, Bytes(0), {tokens, all, table.operand});
  write_passes(w_, "embedding_gradient", embedding_.input_gradient, Half::kEnds, all,
               table.operand);
  if (w_.stage.positions.count > 0) {
    const GradientTarget positions = w_.units.gradient(w_.stage.positions);
    w_.builder.modelled_pass("positions_gradient", 0, Bytes(0), {dy, positions.operand});
  }
}

Operand ModelledEnds::head_input(HeadState& state) {
  if (present(state.gathered_input)) {
    return state.gathered_input;
  }
  const Operand input = gather_tokens(w_, "head_input", state.x);
  if (!w_.job.framework.regather_in_backward) {
    state.gathered_input = input;
  }
  return input;
}

// Of a vocabulary that is split: maximum, sum of exponentials and the target's logit.
void ModelledEnds::reduce_loss() {
  for (const char* name : {"maximum_reduce", "sums_reduce", "target_reduce"}) {
    const Operand row = w_.builder.buffer(name, w_.shape.tokens, ElementType::kMaster);
    w_.builder.modelled_pass(name, 0, Bytes(0), {row});
    w_.builder.all_reduce(name, w_.groups.tensor, Reduction::kSum, row, row, Stream::kTensor);
    w_.builder.modelled_pass(name, 0, Bytes(0), {row, row});
  }
}

void ModelledEnds::head_forward(const Operand& x, const Operand& targets, const Operand& loss,
                                HeadState& state) {
  state.x = x;
  const Operand input = head_input(state);
  const StageContext& bytes = w_.held.context();
  const double lasting = std::min(bytes.logit_kept, bytes.logit_backward);
  state.logits = w_.builder.buffer("logits", compute_elements(lasting), ElementType::kCompute);
  if (bytes.logit_kept > lasting) {
    state.logits_beside = w_.builder.buffer(
        "logits_beside", compute_elements(bytes.logit_kept - lasting), ElementType::kCompute);
    w_.builder.modelled_pass("logits", 0, Bytes(0), {input, state.logits_beside});
  }
  products(head_.forward, input, w_.units.weight(w_.stage.head), state.logits);
  write_passes(w_, "head_passes", head_.forward, Half::kEnds, targets, state.logits);
  if (w_.groups.tensor != kNoGroup) {
    reduce_loss();
  }
  for (std::int64_t module = 0; module < modules_ && w_.groups.tensor != kNoGroup; ++module) {
    const Operand more = gather_tokens(w_, "token_head_input", x);
    w_.builder.modelled_pass("token_head", 0, Bytes(0), {more, state.logits});
    reduce_loss();
  }
  const Operand working = w_.builder.buffer(
      "loss_working", compute_elements(bytes.logit_peak - bytes.logit_kept), ElementType::kCompute);
  w_.builder.modelled_pass("loss", 0, Bytes(0), {state.logits, working});
  w_.builder.modelled_pass("loss", 0, Bytes(0), {working, loss});
}

// The logits in 16 bits, without what their gradient was beside them.
void ModelledEnds::keep_output(const HeadState& state) {
  if (w_.held.keeps_outputs()) {
    outputs_.push_back(w_.builder.buffer("output", w_.shape.tokens * w_.shape.vocabulary_rows,
                                         ElementType::kCompute));
    w_.builder.modelled_pass("output", 0, Bytes(0), {state.logits, outputs_.back()});
  }
}

void ModelledEnds::end_step() {
  for (const Operand& output : outputs_) {
    w_.builder.modelled_pass("output", 0, Bytes(0), {output});
  }
}

Operand ModelledEnds::head_backward(const Operand& targets, HeadState& state, bool split) {
  const Shape& s = w_.shape;
  write_passes(w_, "d_logits", head_.input_gradient, Half::kEnds,
               present(state.logits_beside) ? state.logits_beside : targets, state.logits);
  const Operand input = split ? Operand{} : head_input(state);
  settle_tensor(w_);
  const Operand partial =
      w_.builder.buffer("d_head_input", s.tokens * s.hidden, ElementType::kCompute);
  products(head_.input_gradient, state.logits, w_.units.weight(w_.stage.head), partial);
  const Operand reduced = reduce_tokens(w_, "d_head_reduce", partial);
  for (std::int64_t module = 0; module < modules_ && w_.groups.tensor != kNoGroup; ++module) {
    if (!split && w_.job.framework.regather_in_backward) {
      const Operand more = gather_tokens(w_, "token_head_input", state.x);
      w_.builder.modelled_pass("token_head", 0, Bytes(0), {more, partial});
    }
    const Operand more = reduce_tokens(w_, "d_token_head_reduce", partial);
    w_.builder.modelled_pass("d_token_head", 0, Bytes(0), {more, reduced});
  }
  settle_tensor(w_);
  if (!split) {
    products(head_.weight_gradient, state.logits, input, w_.units.gradient(w_.stage.head).operand);
  }
  if (w_.stage.final_norm.weight.count > 0) {
    const GradientTarget norm = w_.units.gradient(w_.stage.final_norm.weight);
    w_.builder.modelled_pass("final_norm_gradient", 0, Bytes(0), {reduced, norm.operand});
  }
  if (!split) {
    keep_output(state);
    state = {};
  }
  return reduced;
}

void ModelledEnds::head_weight_gradient(HeadState& state) {
  const Operand input = head_input(state);
  products(head_.weight_gradient, state.logits, input, w_.units.gradient(w_.stage.head).operand);
  keep_output(state);
  state = {};
}

}  // namespace trireme::planner::lowering
