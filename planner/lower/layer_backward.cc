#include "planner/lower/layer.h"

namespace trireme::planner::lowering {

Operand LayerWriter::attention_input(LayerState& state) {
  if (present(state.gathered_attention_input)) {
    return state.gathered_attention_input;
  }
  return gather_tokens(w_, "attention_input", state.attention_norm.y);
}

Operand LayerWriter::mlp_input(LayerState& state) {
  if (present(state.gathered_mlp_input)) {
    return state.gathered_mlp_input;
  }
  return gather_tokens(w_, "mlp_input", state.mlp_norm.y);
}

void LayerWriter::down_weight_gradient(const LayerState& state) {
  const Shape& s = w_.shape;
  linear_weight_gradient(w_, "mlp_down_weight", state.d_down, state.activation, slots_.down,
                         s.tokens, s.ffn, s.hidden);
}

void LayerWriter::up_weight_gradient(const LayerState& state, const Operand& input) {
  const Shape& s = w_.shape;
  linear_weight_gradient(w_, "mlp_up_weight", state.d_up, input, slots_.up, s.tokens, s.hidden,
                         s.up);
}

void LayerWriter::output_weight_gradient(const LayerState& state) {
  const Shape& s = w_.shape;
  linear_weight_gradient(w_, "attention_output_weight", state.d_output, state.attention,
                         slots_.output, s.tokens, s.attention, s.hidden);
}

void LayerWriter::qkv_weight_gradient(const LayerState& state, const Operand& input) {
  const Shape& s = w_.shape;
  linear_weight_gradient(w_, "qkv_weight", state.d_qkv, input, slots_.qkv, s.tokens, s.hidden,
                         s.qkv);
}

// Order of issue: collectives of the inputs first, then each input gradient before the weight
// gradient that its collective hides behind.
Operand LayerWriter::backward_mlp(const Operand& dy, LayerState& state, bool split) {
  const Shape& s = w_.shape;
  bias_gradient(w_, "mlp_down_bias", dy, slots_.down_bias, s.local_tokens);
  state.d_down = gather_tokens(w_, "d_mlp_output", dy);
  const Operand input = split ? Operand{} : mlp_input(state);
  settle_tensor(w_);
  const Operand d_activation = linear_input_gradient(w_, "d_activation", state.d_down, slots_.down,
                                                     s.tokens, s.ffn, s.hidden);
  if (!split) {
    down_weight_gradient(state);
  }
  state.d_up = w_.builder.buffer("d_up", s.tokens * s.up, ElementType::kCompute);
  w_.builder.compute("d_up",
                     w_.job.model.gated_mlp ? Kernel::kSwigluBackward : Kernel::kGeluBackward,
                     {s.tokens, s.ffn}, {d_activation, state.up, state.d_up});
  bias_gradient(w_, "mlp_up_bias", state.d_up, slots_.up_bias, s.tokens);
  const Operand partial =
      linear_input_gradient(w_, "d_mlp_input", state.d_up, slots_.up, s.tokens, s.hidden, s.up);
  const Operand reduced = reduce_tokens(w_, "d_mlp_reduce", partial);
  settle_tensor(w_);
  if (!split) {
    up_weight_gradient(state, input);
  }
  return norm_gradient(w_, "mlp_norm_gradient", reduced, state.mlp_norm, slots_.mlp_norm, dy);
}

// Order of issue as in backward_mlp, inside the experts.
Operand LayerWriter::backward_experts(const Operand& dy, LayerState& state, bool split) {
  const Operand d_input =
      ExpertWriter(w_, slots_).backward(dy, state.mlp_norm.y, state.experts, split);
  return norm_gradient(w_, "mlp_norm_gradient", d_input, state.mlp_norm, slots_.mlp_norm, dy);
}

void LayerWriter::attention_gradient(LayerState& state, const Operand& d_attention) {
  const Shape& s = w_.shape;
  w_.builder.compute(
      "attention_gradient", Kernel::kAttentionBackward,
      {s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim, window_of(w_.job.model, layer_)},
      {d_attention, state.qkv, state.attention, state.statistics, state.d_qkv});
}

// Keys and values are gathered a second time; their gradients are summed where they came from.
void LayerWriter::context_attention_gradient(LayerState& state, const Operand& d_attention) {
  const Shape& s = w_.shape;
  const Operand keys = all_keys(state);
  const Operand d_keys = w_.builder.buffer("d_all_keys", keys.count, ElementType::kCompute);
  w_.builder.compute(
      "attention_gradient", Kernel::kContextAttentionBackward,
      {s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim, window_of(w_.job.model, layer_),
       group_dim(w_.groups.context), w_.plan.context},
      {d_attention, state.qkv, keys, state.attention, state.statistics, state.d_qkv, d_keys});
  const Operand leaving = w_.builder.buffer("leaving_keys", keys.count, ElementType::kCompute);
  w_.builder.compute("order_keys", Kernel::kKeysInOrder,
                     {s.batch, s.sequence, s.kv_heads, s.head_dim, w_.plan.context, 1},
                     {d_keys, leaving});
  const Operand own =
      w_.builder.buffer("d_keys", keys.count / w_.plan.context, ElementType::kCompute);
  w_.builder.reduce_scatter("reduce_keys", w_.groups.context, leaving, own, Stream::kContext);
  w_.builder.compute("d_keys", Kernel::kKeysIn, {s.tokens, s.heads, s.kv_heads, s.head_dim},
                     {own, state.d_qkv});
}

void LayerWriter::backward_qkv_gradient(LayerState& state, const Operand& d_attention) {
  const Shape& s = w_.shape;
  state.d_qkv = w_.builder.buffer("d_qkv", s.tokens * s.qkv, ElementType::kCompute);
  if (w_.groups.context == kNoGroup) {
    attention_gradient(state, d_attention);
  } else {
    context_attention_gradient(state, d_attention);
  }
  if (w_.job.model.position == models::Position::kRotary) {
    w_.builder.compute("rotary_gradient", Kernel::kRotaryBackward,
                       {s.tokens, s.heads, s.kv_heads, s.head_dim, s.sequence, kRotaryBase,
                        group_dim(w_.groups.context)},
                       {state.d_qkv});
  }
  if (slots_.q_norm.count > 0) {
    const GradientTarget q = w_.units.gradient(slots_.q_norm);
    const GradientTarget k = w_.units.gradient(slots_.k_norm);
    w_.builder.compute(
        "head_norm_gradient", Kernel::kHeadNormBackward,
        {s.tokens, s.heads, s.kv_heads, s.head_dim, q.accumulate},
        {state.d_qkv, state.raw_qkv, w_.units.weight(slots_.q_norm), w_.units.weight(slots_.k_norm),
         state.head_rstd, state.d_qkv, q.operand, k.operand});
  }
  bias_gradient(w_, "qkv_bias", state.d_qkv, slots_.qkv_bias, s.tokens);
}

Operand LayerWriter::backward_attention(const Operand& dy, LayerState& state, bool split) {
  const Shape& s = w_.shape;
  bias_gradient(w_, "attention_output_bias", dy, slots_.output_bias, s.local_tokens);
  state.d_output = gather_tokens(w_, "d_attention_output", dy);
  const Operand input = split ? Operand{} : attention_input(state);
  settle_tensor(w_);
  const Operand d_attention = linear_input_gradient(w_, "d_attention", state.d_output,
                                                    slots_.output, s.tokens, s.attention, s.hidden);
  if (!split) {
    output_weight_gradient(state);
  }
  backward_qkv_gradient(state, d_attention);
  const Operand partial = linear_input_gradient(w_, "d_attention_input", state.d_qkv, slots_.qkv,
                                                s.tokens, s.hidden, s.qkv);
  const Operand reduced = reduce_tokens(w_, "d_attention_reduce", partial);
  settle_tensor(w_);
  if (!split) {
    qkv_weight_gradient(state, input);
  }
  return norm_gradient(w_, "attention_norm_gradient", reduced, state.attention_norm,
                       slots_.attention_norm, dy);
}

Operand LayerWriter::backward(const Operand& dy, LayerState& state, bool split) {
  const Operand middle =
      sparse_ ? backward_experts(dy, state, split) : backward_mlp(dy, state, split);
  const Operand dx = backward_attention(middle, state, split);
  if (!split) {
    state = {};
  }
  return dx;
}

void LayerWriter::weight_gradients(LayerState& state) {
  if (sparse_) {
    ExpertWriter(w_, slots_).weight_gradients(state.mlp_norm.y, state.experts);
  } else {
    const Operand mlp = mlp_input(state);
    down_weight_gradient(state);
    up_weight_gradient(state, mlp);
  }
  const Operand attention = attention_input(state);
  output_weight_gradient(state);
  qkv_weight_gradient(state, attention);
  state = {};
}

}  // namespace trireme::planner::lowering
