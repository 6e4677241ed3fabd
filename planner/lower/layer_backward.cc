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

void LayerWriter::down_weight_gradient(LayerState& state) {
  weight_gradient("mlp_down_weight", Product::kDown, state.d_down, state.activation, state);
}

void LayerWriter::up_weight_gradient(LayerState& state, const Operand& input) {
  weight_gradient("mlp_up_weight", Product::kUp, state.d_up, input, state);
}

void LayerWriter::output_weight_gradient(LayerState& state) {
  weight_gradient("attention_output_weight", Product::kOutput, state.d_output, state.attention,
                  state);
}

void LayerWriter::qkv_weight_gradient(LayerState& state, const Operand& input) {
  weight_gradient("qkv_weight", Product::kQkv, state.d_qkv, input, state);
}

bool LayerWriter::reads_input(Product product, const Slot& weight, bool split) const {
  return has_adapter(product) || (!split && w_.units.is_trained(weight));
}

// Of halves side by side the other one is still to come.
bool LayerWriter::ends_at(Product product) const {
  if (layer_ != w_.stage.trained.lowest() || !has_adapter(product) || w_.job.model.parallel_block) {
    return false;
  }
  for (std::size_t below = 0; below < static_cast<std::size_t>(product); ++below) {
    if (has_adapter(static_cast<Product>(below))) {
      return false;
    }
  }
  return true;
}

AdapterGradients LayerWriter::adapter_gradient(Product product, const LayerState& state,
                                               const Operand& dy, const Operand& x,
                                               const Operand& dx) {
  if (!has_adapter(product)) {
    return {};
  }
  return {dy, adapter_input_gradient(w_, adapter(product), dy, dx), x,
          state.low[static_cast<std::size_t>(product)]};
}

void LayerWriter::finish_adapter(Product product, const AdapterGradients& from) {
  if (has_adapter(product)) {
    adapter_weight_gradients(w_, adapter(product), from);
  }
}

// Order of issue: collectives of the inputs first, then each input gradient before the weight
// gradient that its collective hides behind.
Operand LayerWriter::backward_mlp(const Operand& dy, LayerState& state, bool split) {
  const Shape& s = w_.shape;
  bias_gradient(w_, "mlp_down_bias", dy, slots_.down_bias, s.local_tokens);
  state.d_down = gather_tokens(w_, "d_mlp_output", dy);
  const bool reads = reads_input(Product::kUp, slots_.up, split);
  const Operand input = reads ? mlp_input(state) : Operand{};
  settle_tensor(w_);
  const Operand d_activation =
      ends_at(Product::kDown) ? Operand{}
                              : input_gradient("d_activation", Product::kDown, state.d_down, state);
  finish_adapter(Product::kDown, adapter_gradient(Product::kDown, state, state.d_down,
                                                  state.activation, d_activation));
  if (!present(d_activation)) {
    return {};
  }
  if (!split) {
    down_weight_gradient(state);
  }
  state.d_up = w_.builder.buffer("d_up", s.tokens * s.up, ElementType::kCompute);
  w_.builder.compute("d_up",
                     w_.job.model.gated_mlp ? Kernel::kSwigluBackward : Kernel::kGeluBackward,
                     {s.tokens, s.ffn}, {d_activation, state.up, state.d_up});
  bias_gradient(w_, "mlp_up_bias", state.d_up, slots_.up_bias, s.tokens);
  if (ends_at(Product::kUp)) {
    finish_adapter(Product::kUp, adapter_gradient(Product::kUp, state, state.d_up, input, {}));
    return {};
  }
  const Operand partial = input_gradient("d_mlp_input", Product::kUp, state.d_up, state);
  const AdapterGradients of_adapter =
      adapter_gradient(Product::kUp, state, state.d_up, input, partial);
  const Operand reduced = reduce_tokens(w_, "d_mlp_reduce", partial);
  settle_tensor(w_);
  finish_adapter(Product::kUp, of_adapter);
  if (!split) {
    up_weight_gradient(state, input);
  }
  return reduced;
}

// Of whole sequences: of all heads, or of those that came in an exchange.
void LayerWriter::attention_gradient(LayerState& state, const Operand& d_attention) {
  const Shape& s = w_.shape;
  const bool exchanges = exchanges_heads();
  const std::int64_t ranks = exchanges ? w_.plan.context : 1;
  const Operand dy = exchanges ? spread_heads("d_whole_attention", d_attention, 0) : d_attention;
  const Operand d_qkv = w_.builder.buffer("d_qkv", s.tokens * s.qkv, ElementType::kCompute);
  w_.builder.compute(
      "attention_gradient", Kernel::kAttentionBackward,
      {s.batch, s.sequence, s.heads / ranks, s.kv_heads / ranks, s.head_dim,
       window_of(w_.job.model, layer_), s.v_dim},
      {dy, exchanges ? state.whole_qkv : state.qkv,
       exchanges ? state.whole_attention : state.attention, state.statistics, d_qkv});
  state.d_qkv = exchanges ? collect_heads("d_own_qkv", d_qkv, s.kv_heads) : d_qkv;
}

// Keys and values are gathered a second time; their gradients are summed where they came from.
void LayerWriter::context_attention_gradient(LayerState& state, const Operand& d_attention) {
  const Shape& s = w_.shape;
  state.d_qkv = w_.builder.buffer("d_qkv", s.tokens * s.qkv, ElementType::kCompute);
  const Operand keys = all_keys(state);
  const Operand d_keys = w_.builder.buffer("d_all_keys", keys.count, ElementType::kCompute);
  w_.builder.compute(
      "attention_gradient", Kernel::kContextAttentionBackward,
      {s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim, window_of(w_.job.model, layer_),
       group_dim(w_.groups.context), w_.plan.context},
      {d_attention, state.qkv, keys, state.attention, state.statistics, state.d_qkv, d_keys});
  const Operand leaving = w_.builder.buffer("leaving_keys", keys.count, ElementType::kCompute);
  w_.builder.compute("order_keys", Kernel::kRowsInOrder,
                     {s.batch, s.sequence, 2 * s.kv_heads * s.head_dim, w_.plan.context, 1},
                     {d_keys, leaving});
  const Operand own =
      w_.builder.buffer("d_keys", keys.count / w_.plan.context, ElementType::kCompute);
  w_.builder.reduce_scatter("reduce_keys", w_.groups.context, leaving, own, Stream::kContext);
  w_.builder.compute("d_keys", Kernel::kKeysIn,
                     {s.tokens, s.heads, s.kv_heads, s.head_dim, s.v_dim}, {own, state.d_qkv});
}

void LayerWriter::head_norm_gradient(LayerState& state) {
  if (slots_.q_norm.count == 0) {
    return;
  }
  const Shape& s = w_.shape;
  const GradientTarget q = w_.units.gradient(slots_.q_norm);
  const GradientTarget k = w_.units.gradient(slots_.k_norm);
  w_.builder.compute(
      "head_norm_gradient", Kernel::kHeadNormBackward,
      {s.tokens, s.heads, s.kv_heads, s.head_dim, q.accumulate},
      {state.d_qkv, state.raw_qkv, w_.units.weight(slots_.q_norm), w_.units.weight(slots_.k_norm),
       state.head_rstd, state.d_qkv, q.operand, k.operand});
}

void LayerWriter::backward_qkv_gradient(LayerState& state, const Operand& d_attention) {
  if (shares_by(ContextForm::kGather)) {
    context_attention_gradient(state, d_attention);
  } else if (shares_by(ContextForm::kRing)) {
    ring_attention_gradient(state, d_attention);
  } else {
    attention_gradient(state, d_attention);
  }
  if (w_.job.model.latent) {
    return;
  }
  if (w_.job.model.function.qk_norm_after_rotary) {
    head_norm_gradient(state);
    turn(state.d_qkv, true);
  } else {
    turn(state.d_qkv, true);
    head_norm_gradient(state);
  }
  bias_gradient(w_, "qkv_bias", state.d_qkv, slots_.qkv_bias, w_.shape.tokens);
}

Operand LayerWriter::read_gradient(const char* name, const Operand& dy, const NormState& state,
                                   const NormSlots& slots, const Operand& residual) {
  if (slots.weight.count > 0) {
    return norm_gradient(w_, name, dy, state, slots, residual);
  }
  w_.builder.compute(name, Kernel::kAdd, {dy.count}, {dy, residual});
  return dy;
}

Operand LayerWriter::leave_gradient(const char* name, const Operand& dy, const NormState& state,
                                    const NormSlots& slots) {
  Operand d_output = dy;
  const bool scales = w_.job.model.function.residual_multiplier != 1;
  if (scales || slots.weight.count > 0) {
    d_output = w_.builder.buffer(name, dy.count, ElementType::kCompute);
  }
  if (scales) {
    w_.builder.compute("residual_scale", Kernel::kScale, {dy.count}, {dy, d_output});
  }
  if (slots.weight.count > 0) {
    norm_gradient(w_, name, scales ? d_output : dy, state, slots, {}, d_output);
  }
  return d_output;
}

// Returns the gradient of what attention reads.
Operand LayerWriter::backward_attention(const Operand& dy, LayerState& state, bool split) {
  bias_gradient(w_, "attention_output_bias", dy, slots_.output_bias, w_.shape.local_tokens);
  state.d_output = gather_tokens(w_, "d_attention_output", dy);
  const bool latent = w_.job.model.latent.has_value();
  const bool reads = !latent && reads_input(Product::kQkv, slots_.qkv, split);
  const Operand input = reads ? attention_input(state) : Operand{};
  settle_tensor(w_);
  const Operand d_attention =
      ends_at(Product::kOutput)
          ? Operand{}
          : input_gradient("d_attention", Product::kOutput, state.d_output, state);
  finish_adapter(Product::kOutput, adapter_gradient(Product::kOutput, state, state.d_output,
                                                    state.attention, d_attention));
  if (!present(d_attention)) {
    return {};
  }
  if (!split) {
    output_weight_gradient(state);
  }
  backward_qkv_gradient(state, d_attention);
  if (latent) {
    return LatentWriter(w_, slots_, layer_)
        .backward(state.d_qkv, state.attention_norm.y, state.latent, split);
  }
  if (ends_at(Product::kQkv)) {
    finish_adapter(Product::kQkv, adapter_gradient(Product::kQkv, state, state.d_qkv, input, {}));
    return {};
  }
  const Operand partial = input_gradient("d_attention_input", Product::kQkv, state.d_qkv, state);
  const AdapterGradients of_adapter =
      adapter_gradient(Product::kQkv, state, state.d_qkv, input, partial);
  const Operand reduced = reduce_tokens(w_, "d_attention_reduce", partial);
  settle_tensor(w_);
  finish_adapter(Product::kQkv, of_adapter);
  if (!split) {
    qkv_weight_gradient(state, input);
  }
  return reduced;
}

// dy reaches both halves of a parallel block; else the MLP's first, then attention's.
Operand LayerWriter::backward(const Operand& dy, LayerState& state, bool split) {
  const Operand d_output =
      leave_gradient("mlp_post_norm_gradient", dy, state.mlp_post_norm, slots_.mlp_post_norm);
  const Operand d_read =
      sparse_ ? ExpertWriter(w_, slots_).backward(d_output, state.mlp_norm.y, state.experts, split)
              : backward_mlp(d_output, state, split);
  if (!present(d_read)) {
    return {};
  }
  const bool parallel = w_.job.model.parallel_block;
  const bool one_norm = parallel && slots_.mlp_norm.weight.count == 0;
  const Operand middle =
      one_norm ? dy
               : read_gradient("mlp_norm_gradient", d_read, state.mlp_norm, slots_.mlp_norm, dy);
  const Operand d_attention = leave_gradient("attention_post_norm_gradient", parallel ? dy : middle,
                                             state.attention_post_norm, slots_.attention_post_norm);
  const Operand d_both = backward_attention(d_attention, state, split);
  if (!present(d_both)) {
    return {};
  }
  if (one_norm) {
    w_.builder.compute("d_halves", Kernel::kAdd, {d_both.count}, {d_both, d_read});
  }
  const Operand dx = read_gradient("attention_norm_gradient", d_both, state.attention_norm,
                                   slots_.attention_norm, middle);
  if (!split) {
    state = {};
  }
  return dx;
}

void LayerWriter::weight_gradients(LayerState& state) {
  if (!w_.stage.trained.weights(layer_)) {
    state = {};
    return;
  }
  if (sparse_) {
    ExpertWriter(w_, slots_).weight_gradients(state.mlp_norm.y, state.experts);
  } else {
    const Operand mlp = mlp_input(state);
    down_weight_gradient(state);
    up_weight_gradient(state, mlp);
  }
  if (w_.job.model.latent) {
    output_weight_gradient(state);
    LatentWriter(w_, slots_, layer_).weight_gradients(state.attention_norm.y, state.latent);
  } else {
    const Operand attention = attention_input(state);
    output_weight_gradient(state);
    qkv_weight_gradient(state, attention);
  }
  state = {};
}

}  // namespace trireme::planner::lowering
