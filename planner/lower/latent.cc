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

Operand LatentWriter::forward(const Operand& input, LatentState& state) {
  Operand q_input;
  std::int64_t q_rank = hidden_;
  if (slots_.q_down.count > 0) {
    q_rank = latent_.q_lora;
    const Operand latent = linear(w_, "q_down", input, slots_.q_down, local_, hidden_, q_rank);
    state.q_norm = norm(w_, "q_norm", latent, slots_.q_norm);
    q_input = gather_tokens(w_, "q_latent", state.q_norm.y);
  } else {
    q_input = gather_tokens(w_, "attention_input", input);
  }
  const Operand q = linear(w_, "q_up", q_input, slots_.q_up, tokens_, q_rank, q_width_);
  const Slot down = rows_of_kv_down(0, latent_.kv_lora);
  const Slot rotary = rows_of_kv_down(latent_.kv_lora, latent_.qk_rope);
  const Operand latent = linear(w_, "kv_down", input, down, local_, hidden_, latent_.kv_lora);
  const Operand key = linear(w_, "rotary_key", input, rotary, local_, hidden_, latent_.qk_rope);
  state.kv_norm = norm(w_, "kv_norm", latent, slots_.kv_norm);
  const Operand kv = linear(w_, "kv_up", gather_tokens(w_, "kv_latent", state.kv_norm.y),
                            slots_.kv_up, tokens_, latent_.kv_lora, kv_width_);
  return heads(q, kv, gather_tokens(w_, "rotary_key", key));
}

void LatentWriter::add_input_gradient(const char* name, const Operand& dy, const Slot& weight,
                                      std::int64_t out, Operand& d_input) {
  if (!present(d_input)) {
    d_input = linear_input_gradient(w_, name, dy, weight, local_, hidden_, out);
    return;
  }
  w_.builder.compute(name, Kernel::kMatmul, {local_, hidden_, out, 0, 0, 1},
                     {dy, w_.units.weight(weight), d_input});
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
  const Operand d_kv_normed =
      reduce_tokens(w_, "d_kv_latent",
                    linear_input_gradient(w_, "d_kv_latent", state.d_kv, slots_.kv_up, tokens_,
                                          latent_.kv_lora, kv_width_));
  const bool low_rank = slots_.q_down.count > 0;
  const Operand d_q_input =
      reduce_tokens(w_, "d_q_latent",
                    linear_input_gradient(w_, "d_q_latent", state.d_q, slots_.q_up, tokens_,
                                          low_rank ? latent_.q_lora : hidden_, q_width_));
  settle_tensor(w_);
  state.d_kv_latent =
      norm_gradient(w_, "kv_norm_gradient", d_kv_normed, state.kv_norm, slots_.kv_norm, {});
  Operand d_input;
  if (low_rank) {
    state.d_q_latent =
        norm_gradient(w_, "q_norm_gradient", d_q_input, state.q_norm, slots_.q_norm, {});
    add_input_gradient("d_attention_input", state.d_q_latent, slots_.q_down, latent_.q_lora,
                       d_input);
  } else {
    d_input = d_q_input;
  }
  add_input_gradient("d_attention_input", state.d_kv_latent, rows_of_kv_down(0, latent_.kv_lora),
                     latent_.kv_lora, d_input);
  add_input_gradient("d_attention_input", state.d_key,
                     rows_of_kv_down(latent_.kv_lora, latent_.qk_rope), latent_.qk_rope, d_input);
  if (!split) {
    weight_gradients(input, state);
  }
  return d_input;
}

void LatentWriter::weight_gradients(const Operand& input, const LatentState& state) {
  linear_weight_gradient(w_, "kv_up_weight", state.d_kv,
                         gather_tokens(w_, "kv_latent", state.kv_norm.y), slots_.kv_up, tokens_,
                         latent_.kv_lora, kv_width_);
  if (slots_.q_down.count > 0) {
    linear_weight_gradient(w_, "q_up_weight", state.d_q,
                           gather_tokens(w_, "q_latent", state.q_norm.y), slots_.q_up, tokens_,
                           latent_.q_lora, q_width_);
    linear_weight_gradient(w_, "q_down_weight", state.d_q_latent, input, slots_.q_down, local_,
                           hidden_, latent_.q_lora);
  } else {
    linear_weight_gradient(w_, "q_up_weight", state.d_q,
                           gather_tokens(w_, "attention_input", input), slots_.q_up, tokens_,
                           hidden_, q_width_);
  }
  linear_weight_gradient(w_, "kv_down_weight", state.d_kv_latent, input,
                         rows_of_kv_down(0, latent_.kv_lora), local_, hidden_, latent_.kv_lora);
  linear_weight_gradient(w_, "rotary_key_weight", state.d_key, input,
                         rows_of_kv_down(latent_.kv_lora, latent_.qk_rope), local_, hidden_,
                         latent_.qk_rope);
}

}  // namespace trireme::planner::lowering
