#include "planner/lower/arithmetic.h"
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
      sparse_(models::is_moe_layer(writer.job.model, layer)),
      codes_(kept_codes(writer.job, writer.plan)) {
  w_.builder.origin.layer = static_cast<std::int32_t>(layer);
}

bool LayerWriter::recomputes(std::uint16_t module) const {
  return w_.plan.recompute == Recompute::kSelective && (w_.plan.recompute_modules & module) != 0;
}

NormState LayerWriter::read(const char* name, const Operand& x, const NormSlots& slots) {
  if (slots.weight.count == 0) {
    NormState none;
    none.x = none.y = x;
    return none;
  }
  return norm(w_, name, x, slots);
}

Operand LayerWriter::leave(const char* name, const Operand& output, NormState& state,
                           const NormSlots& slots) {
  Operand left = output;
  if (slots.weight.count > 0) {
    state = norm(w_, name, output, slots);
    left = state.y;
  }
  if (w_.job.model.function.residual_multiplier != 1) {
    w_.builder.compute("residual_scale", Kernel::kScale, {left.count}, {left, left});
  }
  return left;
}

bool LayerWriter::has_adapter(Product product) const {
  return slots_.adapters[static_cast<std::size_t>(product)].down.count > 0;
}

Adapter LayerWriter::adapter(Product product) const {
  static constexpr std::array<AdapterNames, kProductCount> kNames = {
      {{"qkv_low", "qkv_adapter", "d_qkv_low", "d_qkv_adapter", "qkv_lora_a", "qkv_lora_b"},
       {"attention_output_low", "attention_output_adapter", "d_attention_output_low",
        "d_attention_output_adapter", "attention_output_lora_a", "attention_output_lora_b"},
       {"mlp_up_low", "mlp_up_adapter", "d_mlp_up_low", "d_mlp_up_adapter", "mlp_up_lora_a",
        "mlp_up_lora_b"},
       {"mlp_down_low", "mlp_down_adapter", "d_mlp_down_low", "d_mlp_down_adapter",
        "mlp_down_lora_a", "mlp_down_lora_b"}}};
  const auto at = static_cast<std::size_t>(product);
  const AdapterSlots& slots = slots_.adapters[at];
  const std::int64_t rank = w_.stage.trained.rank;
  return {kNames[at], slots, rank, slots.down.count / rank, slots.up.count / rank};
}

void LayerWriter::forward_adapter(Product product, const Operand& x, const Operand& y,
                                  LayerState& state) {
  if (!has_adapter(product)) {
    return;
  }
  Operand& low = low_of(product, state);
  if (!present(low)) {  // else kept from the first forward
    low = adapter_low(w_, adapter(product), x);
  }
  add_adapter(w_, adapter(product), low, y);
}

void LayerWriter::forward_attention_norm(const Operand& x, LayerState& state) {
  state.attention_norm = read("attention_norm", x, slots_.attention_norm);
}

// Of a parallel block the MLP reads what attention reads, with a norm of its own or the same one.
void LayerWriter::forward_mlp_norm(const Operand& x, const Operand& middle, LayerState& state) {
  const bool parallel = w_.job.model.parallel_block;
  if (parallel && slots_.mlp_norm.weight.count == 0) {
    state.mlp_norm = state.attention_norm;
  } else {
    state.mlp_norm = read("mlp_norm", parallel ? x : middle, slots_.mlp_norm);
  }
}

void LayerWriter::turn(const Operand& qkv, bool inverse) {
  const Shape& s = w_.shape;
  const std::int64_t table = rotary_table_of(w_.job.model, layer_);
  if (table >= 0) {
    w_.builder.compute(inverse ? "rotary_gradient" : "rotary",
                       inverse ? Kernel::kRotaryBackward : Kernel::kRotaryForward,
                       {s.tokens, s.heads, s.kv_heads, s.head_dim, s.sequence, table,
                        group_dim(w_.groups.context)},
                       {qkv});
  }
}

void LayerWriter::forward_head_norm(LayerState& state) {
  if (slots_.q_norm.count == 0) {
    return;
  }
  const Shape& s = w_.shape;
  state.raw_qkv = state.qkv;
  state.qkv = w_.builder.buffer("normed_qkv", s.tokens * s.qkv, ElementType::kCompute);
  state.head_rstd =
      w_.builder.buffer("head_rstd", s.tokens * (s.heads + s.kv_heads), ElementType::kMaster);
  w_.builder.compute("head_norm", Kernel::kHeadNormForward,
                     {s.tokens, s.heads, s.kv_heads, s.head_dim},
                     {state.raw_qkv, w_.units.weight(slots_.q_norm), w_.units.weight(slots_.k_norm),
                      state.qkv, state.head_rstd});
}

void LayerWriter::forward_qkv(LayerState& state) {
  const Shape& s = w_.shape;
  if (w_.job.model.latent) {
    state.qkv = LatentWriter(w_, slots_, layer_).forward(state.attention_norm.y, state.latent);
    return;
  }
  const Operand input = gather_tokens(w_, "attention_input", state.attention_norm.y);
  if (!w_.job.framework.regather_in_backward) {
    state.gathered_attention_input = input;
  }
  state.qkv = multiply("qkv", Product::kQkv, input, state);
  forward_adapter(Product::kQkv, input, state.qkv, state);
  add_bias(w_, "qkv_bias", state.qkv, slots_.qkv_bias, s.tokens);
  if (w_.job.model.function.qk_norm_after_rotary) {
    turn(state.qkv, false);
    forward_head_norm(state);
  } else {
    forward_head_norm(state);
    turn(state.qkv, false);
  }
}

Operand LayerWriter::own_keys(const LayerState& state) {
  const Shape& s = w_.shape;
  const Operand keys = w_.builder.buffer("keys", s.tokens * s.kv_heads * (s.head_dim + s.v_dim),
                                         ElementType::kCompute);
  w_.builder.compute("keys", Kernel::kKeysOut, {s.tokens, s.heads, s.kv_heads, s.head_dim, s.v_dim},
                     {state.qkv, keys});
  return keys;
}

// Context parallelism: keys and values of whole sequences, from all that share them.
Operand LayerWriter::all_keys(const LayerState& state) {
  const Shape& s = w_.shape;
  const Operand keys = own_keys(state);
  const std::int64_t whole = keys.count * w_.plan.context;
  const Operand gathered = w_.builder.buffer("gathered_keys", whole, ElementType::kCompute);
  w_.builder.all_gather("gather_keys", w_.groups.context, keys, gathered, Stream::kContext);
  const Operand all = w_.builder.buffer("all_keys", whole, ElementType::kCompute);
  w_.builder.compute("order_keys", Kernel::kRowsInOrder,
                     {s.batch, s.sequence, 2 * s.kv_heads * s.head_dim, w_.plan.context, 0},
                     {gathered, all});
  return all;
}

bool LayerWriter::shares_by(ContextForm form) const {
  return w_.groups.context != kNoGroup && context_form(w_.job.framework) == form;
}

// Context ranks exchange heads: of rows of all heads of the own tokens, those of a share of the
// heads of whole sequences.
Operand LayerWriter::spread_heads(const char* name, const Operand& rows, std::int64_t kv_heads) {
  const Shape& s = w_.shape;
  const std::int64_t ranks = w_.plan.context;
  const std::int64_t size =
      kv_heads > 0 ? s.head_dim : s.v_dim;  // of qkv, or of what attention gives
  const Operand leaving = w_.builder.buffer("leaving_heads", rows.count, ElementType::kCompute);
  w_.builder.compute("spread_heads", Kernel::kSpreadHeads,
                     {s.tokens, s.heads, kv_heads, size, ranks, 0, s.v_dim}, {rows, leaving});
  const Operand arrived = w_.builder.buffer("arrived_heads", rows.count, ElementType::kCompute);
  w_.builder.all_to_all(name, w_.groups.context, leaving, arrived, Stream::kContext);
  const Operand whole = w_.builder.buffer(name, rows.count, ElementType::kCompute);
  w_.builder.compute("order_heads", Kernel::kRowsInOrder,
                     {s.batch, s.sequence, rows.count / s.tokens / ranks, ranks, 0},
                     {arrived, whole});
  return whole;
}

Operand LayerWriter::collect_heads(const char* name, const Operand& rows, std::int64_t kv_heads) {
  const Shape& s = w_.shape;
  const std::int64_t ranks = w_.plan.context;
  const std::int64_t size =
      kv_heads > 0 ? s.head_dim : s.v_dim;  // of qkv, or of what attention gives
  const Operand leaving = w_.builder.buffer("leaving_heads", rows.count, ElementType::kCompute);
  w_.builder.compute("order_heads", Kernel::kRowsInOrder,
                     {s.batch, s.sequence, rows.count / s.tokens / ranks, ranks, 1},
                     {rows, leaving});
  const Operand arrived = w_.builder.buffer("arrived_heads", rows.count, ElementType::kCompute);
  w_.builder.all_to_all(name, w_.groups.context, leaving, arrived, Stream::kContext);
  const Operand own = w_.builder.buffer(name, rows.count, ElementType::kCompute);
  w_.builder.compute("spread_heads", Kernel::kSpreadHeads,
                     {s.tokens, s.heads, kv_heads, size, ranks, 1, s.v_dim}, {arrived, own});
  return own;
}

void LayerWriter::forward_attention(LayerState& state) {
  if (shares_by(ContextForm::kRing)) {
    ring_attention(state);
    return;
  }
  const Shape& s = w_.shape;
  const std::int64_t window = window_of(w_.job.model, layer_);
  const bool exchanges = exchanges_heads();
  if (exchanges && !present(state.whole_qkv)) {
    state.whole_qkv = spread_heads("whole_qkv", state.qkv, s.kv_heads);
    state.qkv = {};
  }
  const Operand output =
      w_.builder.buffer("attention", s.tokens * s.attention, ElementType::kCompute);
  state.statistics =
      w_.builder.buffer("attention_statistics", s.tokens * s.heads, ElementType::kMaster);
  if (shares_by(ContextForm::kGather)) {
    state.attention = output;
    w_.builder.compute("attention", Kernel::kContextAttentionForward,
                       {s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim, window,
                        group_dim(w_.groups.context), w_.plan.context},
                       {state.qkv, all_keys(state), state.attention, state.statistics});
    return;
  }
  const std::int64_t ranks = exchanges ? w_.plan.context : 1;
  w_.builder.compute(
      "attention", Kernel::kAttentionForward,
      {s.batch, s.sequence, s.heads / ranks, s.kv_heads / ranks, s.head_dim, window, s.v_dim},
      {exchanges ? state.whole_qkv : state.qkv, output, state.statistics});
  if (exchanges) {
    state.whole_attention = output;
    state.attention = collect_heads("own_attention", output, 0);
  } else {
    state.attention = output;
  }
}

// Attention's output projection and the residual: the stream between attention and MLP.
Operand LayerWriter::forward_output(const Operand& x, LayerState& state) {
  const Operand partial = multiply("attention_output", Product::kOutput, state.attention, state);
  forward_adapter(Product::kOutput, state.attention, partial, state);
  const Operand whole = reduce_tokens(w_, "attention_reduce", partial);
  add_bias(w_, "attention_output_bias", whole, slots_.output_bias, w_.shape.local_tokens);
  const Operand out =
      leave("attention_post_norm", whole, state.attention_post_norm, slots_.attention_post_norm);
  w_.builder.compute("attention_residual", Kernel::kAdd, {out.count}, {out, x});
  return out;
}

void LayerWriter::forward_up(LayerState& state) {
  const Operand input = gather_tokens(w_, "mlp_input", state.mlp_norm.y);
  if (!w_.job.framework.regather_in_backward) {
    state.gathered_mlp_input = input;
  }
  state.up = multiply("mlp_up", Product::kUp, input, state);
  forward_adapter(Product::kUp, input, state.up, state);
  add_bias(w_, "mlp_up_bias", state.up, slots_.up_bias, w_.shape.tokens);
}

void LayerWriter::forward_activation(LayerState& state) {
  const Shape& s = w_.shape;
  state.activation = w_.builder.buffer("activation", s.tokens * s.ffn, ElementType::kCompute);
  w_.builder.compute("activation",
                     w_.job.model.gated_mlp ? Kernel::kSwigluForward : Kernel::kGeluForward,
                     {s.tokens, s.ffn}, {state.up, state.activation});
}

Operand LayerWriter::forward_down(LayerState& state) {
  const Operand partial = multiply("mlp_down", Product::kDown, state.activation, state);
  forward_adapter(Product::kDown, state.activation, partial, state);
  const Operand out = reduce_tokens(w_, "mlp_reduce", partial);
  add_bias(w_, "mlp_down_bias", out, slots_.down_bias, w_.shape.local_tokens);
  return out;
}

// The MLP's or the experts' output as it joins the stream.
Operand LayerWriter::forward_mlp(LayerState& state) {
  Operand out;
  if (sparse_) {
    out = ExpertWriter(w_, slots_).forward(state.mlp_norm.y, state.experts);
  } else {
    forward_up(state);
    forward_activation(state);
    out = forward_down(state);
  }
  return leave("mlp_post_norm", out, state.mlp_post_norm, slots_.mlp_post_norm);
}

Operand LayerWriter::forward(const Operand& x, LayerState& state) {
  forward_attention_norm(x, state);
  forward_qkv(state);
  forward_attention(state);
  const Operand middle = forward_output(x, state);
  forward_mlp_norm(x, middle, state);
  const Operand out = forward_mlp(state);
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
  drop_inputs(state);
  if (recomputes(kLayerNorm | kTorchPerOp)) {
    state.attention_norm.y = state.mlp_norm.y = {};
    state.gathered_attention_input = state.gathered_mlp_input = {};
  }
  if (recomputes(kCoreAttention)) {
    state.attention = state.statistics = state.whole_attention = {};
  }
  if (recomputes(kMlp | kTorchPerOp)) {
    state.up = state.activation = {};
  }
  if (sparse_ && w_.plan.recompute == Recompute::kSelective) {
    ExpertWriter::drop(w_.plan.recompute_modules, state.experts);
  }
}

// All of the forward, up to the input of the last product in this project's runtime; what follows
// is repeated where a norm's backward reads it.
void LayerWriter::repeat_all(LayerState& state) {
  const Operand x = state.attention_norm.x;
  forward_attention_norm(x, state);
  forward_qkv(state);
  forward_attention(state);
  forward_mlp_norm(x, forward_output(x, state), state);
  if (w_.job.framework.implementation != models::Implementation::kTrireme ||
      slots_.mlp_post_norm.weight.count > 0) {
    forward_mlp(state);
  } else if (sparse_) {
    ExpertWriter(w_, slots_).repeat(state.mlp_norm.y, state.experts);
  } else {
    repeat_mlp(state);
  }
}

// Up to the input of the last product, as far as a backward reads it.
void LayerWriter::repeat_mlp(LayerState& state) {
  forward_up(state);
  if (reads_input(Product::kDown, slots_.down, false)) {
    forward_activation(state);
  }
  if (has_adapter(Product::kDown) && !present(low_of(Product::kDown, state))) {
    low_of(Product::kDown, state) = adapter_low(w_, adapter(Product::kDown), state.activation);
  }
}

void LayerWriter::recompute(LayerState& state) {
  w_.builder.origin.phase = Phase::kRecompute;
  if (recompute_all_) {
    repeat_all(state);
  } else {
    if (!present(state.attention_norm.y) && !codes_.qkv) {
      const Operand middle = state.mlp_norm.x;
      forward_attention_norm(state.attention_norm.x, state);
      forward_mlp_norm(state.attention_norm.x, middle, state);
    }
    if (!present(state.attention)) {
      forward_attention(state);
    }
    if (sparse_) {
      ExpertWriter(w_, slots_).repeat_dropped(state.mlp_norm.y, state.experts);
    } else if (!present(state.up)) {
      repeat_mlp(state);
    }
  }
  w_.builder.origin.phase = Phase::kBackward;
}

}  // namespace trireme::planner::lowering
