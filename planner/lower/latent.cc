#include "planner/lower/latent.h"

#include "planner/lower/arithmetic.h"

namespace trireme::planner::lowering {

LatentWriter::LatentWriter(Writer& writer, const LayerSlots& slots, std::int64_t layer)
    : w_(writer),
      slots_(slots.latent),
      latent_(*writer.job.model.latent),
      local_(writer.shape.local_tokens),
      tokens_(writer.shape.tokens),
      hidden_(writer.shape.hidden),
      table_(rotary_table_of(writer.job.model, layer)),
      q_width_(writer.shape.heads * (latent_.qk_nope + latent_.qk_rope)),
      kv_width_(writer.shape.heads * (latent_.qk_nope + latent_.v_head)) {}

Slot LatentWriter::rows_of_kv_down(std::int64_t first, std::int64_t count) const {
  return {slots_.kv_down.unit, slots_.kv_down.offset + first * hidden_, count * hidden_};
}

Operand LatentWriter::heads(const Operand& q, const Operand& kv, const Operand& key) {
  const Shape& s = w_.shape;
  const Operand qkv = w_.builder.buffer("qkv", tokens_ * s.qkv, ElementType::kCompute);
  w_.builder.compute("heads", Kernel::kLatentHeadsForward,
                     {tokens_, s.heads, latent_.qk_nope, latent_.qk_rope, latent_.v_head,
                      s.sequence, table_, group_dim(w_.groups.context)},
                     {q, kv, key, qkv});
  return qkv;
}

LayerProduct LatentWriter::q_down() const {
  return {"q_down", slots_.q_down, local_, hidden_, latent_.q_lora};
}

LayerProduct LatentWriter::q_up() const {
  return {"q_up", slots_.q_up, tokens_, low_rank() ? latent_.q_lora : hidden_, q_width_};
}

LayerProduct LatentWriter::kv_down() const {
  return {"kv_down", rows_of_kv_down(0, latent_.kv_lora), local_, hidden_, latent_.kv_lora};
}

LayerProduct LatentWriter::rotary_key() const {
  return {"rotary_key", rows_of_kv_down(latent_.kv_lora, latent_.qk_rope), local_, hidden_,
          latent_.qk_rope};
}

LayerProduct LatentWriter::kv_up() const {
  return {"kv_up", slots_.kv_up, tokens_, latent_.kv_lora, kv_width_};
}

Operand LatentWriter::forward(const Operand& input, LatentState& state) {
  cast_input(w_, kv_down(), input, state.narrow_kv_down);
  share_input(state.narrow_kv_down, state.narrow_key);
  Operand q_input;
  if (low_rank()) {
    share_input(state.narrow_kv_down, state.narrow_q_down);
    const Operand latent = product(w_, "q_down", q_down(), input, state.narrow_q_down);
    state.q_norm = norm(w_, "q_norm", latent, slots_.q_norm);
    q_input = gather_tokens(w_, "q_latent", state.q_norm.y);
  } else {
    q_input = gather_tokens(w_, "attention_input", input);
  }
  const Operand q = product(w_, "q_up", q_up(), q_input, state.narrow_q_up);
  const Operand latent = product(w_, "kv_down", kv_down(), input, state.narrow_kv_down);
  const Operand key = product(w_, "rotary_key", rotary_key(), input, state.narrow_key);
  state.kv_norm = norm(w_, "kv_norm", latent, slots_.kv_norm);
  const Operand kv = product(w_, "kv_up", kv_up(), gather_tokens(w_, "kv_latent", state.kv_norm.y),
                             state.narrow_kv_up);
  return heads(q, kv, gather_tokens(w_, "rotary_key", key));
}

Operand LatentWriter::backward(const Operand& d_qkv, const Operand& input, LatentState& state,
                               bool split) {
  const Shape& s = w_.shape;
  state.d_q = w_.builder.buffer("d_q", tokens_ * q_width_, ElementType::kCompute);
  state.d_kv = w_.builder.buffer("d_kv", tokens_ * kv_width_, ElementType::kCompute);
  const Operand d_key =
      w_.builder.buffer("d_rotary_key", tokens_ * latent_.qk_rope, ElementType::kCompute);
  w_.builder.compute("heads_gradient", Kernel::kLatentHeadsBackward,
                     {tokens_, s.heads, latent_.qk_nope, latent_.qk_rope, latent_.v_head,
                      s.sequence, table_, group_dim(w_.groups.context)},
                     {d_qkv, state.d_q, state.d_kv, d_key});
  state.d_key = reduce_tokens(w_, "d_rotary_key", d_key);
  const Operand d_kv_normed = reduce_tokens(
      w_, "d_kv_latent",
      product_input_gradient(w_, "d_kv_latent", kv_up(), state.d_kv, state.narrow_kv_up));
  const Operand d_q_input =
      reduce_tokens(w_, "d_q_latent",
                    product_input_gradient(w_, "d_q_latent", q_up(), state.d_q, state.narrow_q_up));
  settle_tensor(w_);
  state.d_kv_latent =
      norm_gradient(w_, "kv_norm_gradient", d_kv_normed, state.kv_norm, slots_.kv_norm, {});
  Operand d_input = d_q_input;
  if (low_rank()) {
    state.d_q_latent =
        norm_gradient(w_, "q_norm_gradient", d_q_input, state.q_norm, slots_.q_norm, {});
    d_input = product_input_gradient(w_, "d_attention_input", q_down(), state.d_q_latent,
                                     state.narrow_q_down);
  }
  product_input_gradient(w_, "d_attention_input", kv_down(), state.d_kv_latent,
                         state.narrow_kv_down, d_input);
  product_input_gradient(w_, "d_attention_input", rotary_key(), state.d_key, state.narrow_key,
                         d_input);
  if (!split) {
    weight_gradients(input, state);
  }
  return d_input;
}

void LatentWriter::weight_gradients(const Operand& input, LatentState& state) {
  product_weight_gradient(w_, "kv_up_weight", kv_up(), state.d_kv,
                          gather_tokens(w_, "kv_latent", state.kv_norm.y), state.narrow_kv_up);
  const char* const q_input = low_rank() ? "q_latent" : "attention_input";
  product_weight_gradient(w_, "q_up_weight", q_up(), state.d_q,
                          gather_tokens(w_, q_input, low_rank() ? state.q_norm.y : input),
                          state.narrow_q_up);
  turn_input(w_, kv_down(), input, state.narrow_kv_down);
  share_input(state.narrow_kv_down, state.narrow_key);
  if (low_rank()) {
    share_input(state.narrow_kv_down, state.narrow_q_down);
    product_weight_gradient(w_, "q_down_weight", q_down(), state.d_q_latent, input,
                            state.narrow_q_down);
  }
  product_weight_gradient(w_, "kv_down_weight", kv_down(), state.d_kv_latent, input,
                          state.narrow_kv_down);
  product_weight_gradient(w_, "rotary_key_weight", rotary_key(), state.d_key, input,
                          state.narrow_key);
}

}  // namespace trireme::planner::lowering
