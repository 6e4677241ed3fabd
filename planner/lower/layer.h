// Pass 6: the ops of one transformer layer: forward, recompute, backward in one piece or split.
#pragma once

#include "planner/lower/experts.h"
#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

// What a layer's forward leaves behind for its backward.
struct LayerState {
  NormState attention_norm, mlp_norm;
  Operand raw_qkv, head_rstd;  // before the norms of heads, when the model has them
  Operand qkv, attention, statistics;
  Operand up, activation;
  ExpertState experts;  // of a layer with experts, instead
  Operand gathered_attention_input,
      gathered_mlp_input;  // when sequence parallelism does not gather them again
  // Left by the input gradient for the weight gradient.
  Operand d_down, d_up, d_output, d_qkv;
};

class LayerWriter {
 public:
  // `layer` of the model; `recompute` whether its forward is repeated whole.
  LayerWriter(Writer& writer, std::int64_t layer, bool recompute);

  // Returns the residual stream after the layer.
  Operand forward(const Operand& x, LayerState& state);
  // Repeats of the forward what the plan did not keep.
  void recompute(LayerState& state);
  // Returns the gradient of the layer's input. Writes the weight gradients beside it unless
  // `split`.
  Operand backward(const Operand& dy, LayerState& state, bool split);
  void weight_gradients(LayerState& state);

 private:
  [[nodiscard]] bool recomputes(std::uint16_t module) const;
  void forward_attention_norm(const Operand& x, LayerState& state);
  void forward_qkv(LayerState& state);
  void forward_attention(LayerState& state);
  Operand forward_output(const Operand& x, LayerState& state);
  void forward_up(LayerState& state);
  void forward_activation(LayerState& state);
  Operand forward_down(LayerState& state);
  void drop_unkept(LayerState& state);

  Operand backward_mlp(const Operand& dy, LayerState& state, bool split);
  Operand backward_attention(const Operand& dy, LayerState& state, bool split);
  void backward_qkv_gradient(LayerState& state, const Operand& d_attention);
  Operand backward_experts(const Operand& dy, LayerState& state, bool split);
  void attention_gradient(LayerState& state, const Operand& d_attention);
  void context_attention_gradient(LayerState& state, const Operand& d_attention);
  Operand all_keys(const LayerState& state);
  Operand attention_input(LayerState& state);
  Operand mlp_input(LayerState& state);
  void down_weight_gradient(const LayerState& state);
  void up_weight_gradient(const LayerState& state, const Operand& input);
  void output_weight_gradient(const LayerState& state);
  void qkv_weight_gradient(const LayerState& state, const Operand& input);

  Writer& w_;
  const LayerSlots& slots_;
  std::int64_t layer_;
  bool recompute_all_, sparse_;
};

// Whether the plan repeats this layer's whole forward; `place` is its place in its chunk.
bool repeats_layer(const Plan& plan, std::int64_t place);

}  // namespace trireme::planner::lowering
