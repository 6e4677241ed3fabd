#include "planner/lower/layer.h"

namespace trireme::planner::lowering {

bool repeats_layer(const Plan& plan, std::int64_t place) {
  return plan.recompute == Recompute::kFull &&
         (plan.recompute_layers < 0 || place < plan.recompute_layers);
}

LayerWriter::LayerWriter(Writer& writer, std::int64_t layer, bool recompute)
    : w_(writer),
      slots_(writer.stage.layers[static_cast<std::size_t>(layer)]),
      layer_(layer),
      recompute_all_(recompute),
      sparse_(models::is_moe_layer(writer.job.model, layer)) {
  w_.builder.origin.layer = static_cast<std::int32_t>(layer);
}

bool LayerWriter::recomputes(std::uint16_t module) const {
  return w_.plan.recompute == Recompute::kSelective && (w_.plan.recompute_modules & module) != 0;
}

void LayerWriter::forward_attention_norm(const Operand& x, LayerState& state) {
  state.attention_norm = norm(w_, "attention_norm", x, slots_.attention_norm);
}

void LayerWriter::forward_qkv(LayerState& state) {
  const Shape& s = w_.shape;
  const Operand input = gather_tokens(w_, "attention_input", state.attention_norm.y);
  if (!w_.job.framework.regather_in_backward) {
    state.gathered_attention_input = input;
  }
  state.qkv = linear(w_, "qkv", input, slots_.qkv, s.tokens, s.hidden, s.qkv);
  add_bias(w_, "qkv_bias", state.qkv, slots_.qkv_bias, s.tokens);
  if (slots_.q_norm.count > 0) {
    state.raw_qkv = state.qkv;
    state.qkv = w_.builder.buffer("normed_qkv", s.tokens * s.qkv, ElementType::kCompute);
    state.head_rstd =
        w_.builder.buffer("head_rstd", s.tokens * (s.heads + s.kv_heads), ElementType::kMaster);
    w_.builder.compute("head_norm", Kernel::kHeadNormForward,
                       {s.tokens, s.heads, s.kv_heads, s.head_dim},
                       {state.raw_qkv, w_.units.weight(slots_.q_norm),
                        w_.units.weight(slots_.k_norm), state.qkv, state.head_rstd});
  }
  if (w_.job.model.position == models::Position::kRotary) {
    w_.builder.compute("rotary", Kernel::kRotaryForward,
                       {s.tokens, s.heads, s.kv_heads, s.head_dim, s.sequence, kRotaryBase,
                        group_dim(w_.groups.context)},
                       {state.qkv});
  }
}

// Context parallelism: keys and values of whole sequences, from all that share them.
Operand LayerWriter::all_keys(const LayerState& state) {
  const Shape& s = w_.shape;
  const std::int64_t own = s.tokens * 2 * s.kv_heads * s.head_dim;
  const Operand keys = w_.builder.buffer("keys", own, ElementType::kCompute);
  w_.builder.compute("keys", Kernel::kKeysOut, {s.tokens, s.heads, s.kv_heads, s.head_dim},
                     {state.qkv, keys});
  const Operand gathered =
      w_.builder.buffer("gathered_keys", own * w_.plan.context, ElementType::kCompute);
  w_.builder.all_gather("gather_keys", w_.groups.context, keys, gathered, Stream::kContext);
  const Operand all = w_.builder.buffer("all_keys", own * w_.plan.context, ElementType::kCompute);
  w_.builder.compute("order_keys", Kernel::kKeysInOrder,
                     {s.batch, s.sequence, s.kv_heads, s.head_dim, w_.plan.context, 0},
                     {gathered, all});
  return all;
}

void LayerWriter::forward_attention(LayerState& state) {
  const Shape& s = w_.shape;
  state.attention = w_.builder.buffer("attention", s.tokens * s.attention, ElementType::kCompute);
  state.statistics =
      w_.builder.buffer("attention_statistics", s.tokens * s.heads, ElementType::kMaster);
  if (w_.groups.context != kNoGroup) {
    w_.builder.compute(
        "attention", Kernel::kContextAttentionForward,
        {s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim, window_of(w_.job.model, layer_),
         group_dim(w_.groups.context), w_.plan.context},
        {state.qkv, all_keys(state), state.attention, state.statistics});
    return;
  }
  w_.builder.compute(
      "attention", Kernel::kAttentionForward,
      {s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim, window_of(w_.job.model, layer_)},
      {state.qkv, state.attention, state.statistics});
}

// Attention's output projection and the residual: the stream between attention and MLP.
Operand LayerWriter::forward_output(const Operand& x, LayerState& state) {
  const Shape& s = w_.shape;
  const Operand partial = linear(w_, "attention_output", state.attention, slots_.output, s.tokens,
                                 s.attention, s.hidden);
  const Operand out = reduce_tokens(w_, "attention_reduce", partial);
  add_bias(w_, "attention_output_bias", out, slots_.output_bias, s.local_tokens);
  w_.builder.compute("attention_residual", Kernel::kAdd, {out.count}, {out, x});
  return out;
}

void LayerWriter::forward_up(LayerState& state) {
  const Shape& s = w_.shape;
  const Operand input = gather_tokens(w_, "mlp_input", state.mlp_norm.y);
  if (!w_.job.framework.regather_in_backward) {
    state.gathered_mlp_input = input;
  }
  state.up = linear(w_, "mlp_up", input, slots_.up, s.tokens, s.hidden, s.up);
  add_bias(w_, "mlp_up_bias", state.up, slots_.up_bias, s.tokens);
}

void LayerWriter::forward_activation(LayerState& state) {
  const Shape& s = w_.shape;
  state.activation = w_.builder.buffer("activation", s.tokens * s.ffn, ElementType::kCompute);
  w_.builder.compute("activation",
                     w_.job.model.gated_mlp ? Kernel::kSwigluForward : Kernel::kGeluForward,
                     {s.tokens, s.ffn}, {state.up, state.activation});
}

Operand LayerWriter::forward_down(LayerState& state) {
  const Shape& s = w_.shape;
  const Operand partial =
      linear(w_, "mlp_down", state.activation, slots_.down, s.tokens, s.ffn, s.hidden);
  const Operand out = reduce_tokens(w_, "mlp_reduce", partial);
  add_bias(w_, "mlp_down_bias", out, slots_.down_bias, s.local_tokens);
  return out;
}

Operand LayerWriter::forward(const Operand& x, LayerState& state) {
  forward_attention_norm(x, state);
  forward_qkv(state);
  forward_attention(state);
  const Operand middle = forward_output(x, state);
  state.mlp_norm = norm(w_, "mlp_norm", middle, slots_.mlp_norm);
  Operand out;
  if (sparse_) {
    out = ExpertWriter(w_, slots_).forward(state.mlp_norm.y, state.experts);
  } else {
    forward_up(state);
    forward_activation(state);
    out = forward_down(state);
  }
  w_.builder.compute("mlp_residual", Kernel::kAdd, {out.count}, {out, middle});
  drop_unkept(state);
  return out;
}

// Forgets what is not kept: a buffer lives to its last use, so not naming it later is what frees
// it.
void LayerWriter::drop_unkept(LayerState& state) {
  if (recompute_all_) {
    const Operand x = state.attention_norm.x;
    state = {};
    state.attention_norm.x = x;
    return;
  }
  if (recomputes(kLayerNorm | kTorchPerOp)) {
    state.attention_norm.y = state.mlp_norm.y = {};
    state.gathered_attention_input = state.gathered_mlp_input = {};
  }
  if (recomputes(kCoreAttention)) {
    state.attention = state.statistics = {};
  }
  if (recomputes(kMlp | kTorchPerOp)) {
    state.up = state.activation = {};
  }
  if (sparse_ && w_.plan.recompute == Recompute::kSelective) {
    ExpertWriter::drop(w_.plan.recompute_modules, state.experts);
  }
}

void LayerWriter::recompute(LayerState& state) {
  w_.builder.origin.phase = Phase::kRecompute;
  if (recompute_all_) {
    const Operand x = state.attention_norm.x;
    forward_attention_norm(x, state);
    forward_qkv(state);
    forward_attention(state);
    state.mlp_norm = norm(w_, "mlp_norm", forward_output(x, state), slots_.mlp_norm);
    if (sparse_) {
      ExpertWriter(w_, slots_).repeat(state.mlp_norm.y, state.experts);
    } else {
      forward_up(state);
      forward_activation(state);
    }
    // This project's runtime stops at the input of the last product.
    if (w_.job.framework.implementation != models::Implementation::kTrireme) {
      forward_down(state);
    }
  } else {
    if (!present(state.attention_norm.y)) {
      forward_attention_norm(state.attention_norm.x, state);
      state.mlp_norm = norm(w_, "mlp_norm", state.mlp_norm.x, slots_.mlp_norm);
    }
    if (!present(state.attention)) {
      forward_attention(state);
    }
    if (sparse_) {
      ExpertWriter(w_, slots_).repeat_dropped(state.mlp_norm.y, state.experts);
    } else if (!present(state.up)) {
      forward_up(state);
      forward_activation(state);
    }
  }
  w_.builder.origin.phase = Phase::kBackward;
}

}  // namespace trireme::planner::lowering
