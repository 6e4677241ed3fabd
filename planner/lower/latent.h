// Latent attention (DeepSeek-V2, section 2.1): queries, keys and values by way of low-rank latents.
// The down-projections, their norms and the rotary key work on the residual stream's tokens, of
// which every tensor rank has its own under sequence parallelism; the up-projections give this
// rank's heads of all tokens.
#pragma once

#include "planner/lower/narrow.h"
#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

// What the forward leaves behind; d_*: what the input gradient leaves for the weight gradient.
struct LatentState {
  NormState q_norm, kv_norm;
  Operand d_q, d_kv, d_q_latent, d_kv_latent, d_key;
  // Of products in 8 bits.
  NarrowState narrow_q_down, narrow_q_up, narrow_kv_down, narrow_key, narrow_kv_up;
};

class LatentWriter {
 public:
  LatentWriter(Writer& writer, const LayerSlots& slots, std::int64_t layer);

  // Rows of heads for attention, out of the tokens' normed states.
  Operand forward(const Operand& input, LatentState& state);
  // The gradient of `input`. Writes the weight gradients beside it unless `split`.
  Operand backward(const Operand& d_qkv, const Operand& input, LatentState& state, bool split);
  void weight_gradients(const Operand& input, LatentState& state);

 private:
  [[nodiscard]] Slot rows_of_kv_down(std::int64_t first, std::int64_t count) const;
  Operand heads(const Operand& q, const Operand& kv, const Operand& key);
  // The products; what q_up reads where there is no q_down is the hidden state.
  [[nodiscard]] bool low_rank() const { return slots_.q_down.count > 0; }
  [[nodiscard]] LayerProduct q_down() const;
  [[nodiscard]] LayerProduct q_up() const;
  [[nodiscard]] LayerProduct kv_down() const;
  [[nodiscard]] LayerProduct rotary_key() const;
  [[nodiscard]] LayerProduct kv_up() const;

  Writer& w_;
  const LatentSlots& slots_;
  models::LatentAttention latent_;
  std::int64_t local_, tokens_, hidden_, table_;
  std::int64_t q_width_, kv_width_;  // of this rank's heads
};

}  // namespace trireme::planner::lowering
