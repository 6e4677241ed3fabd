// Pass 6: the ops of one transformer layer: forward, recompute, backward in one piece or split.
#pragma once

#include "planner/lower/adapters.h"
#include "planner/lower/experts.h"
#include "planner/lower/latent.h"
#include "planner/lower/narrow.h"
#include "planner/lower/writer.h"
#include "planner/plan/narrow.h"

namespace trireme::planner::lowering {

// What a layer's forward leaves behind for its backward.
struct LayerState {
  NormState attention_norm, mlp_norm;            // without such a norm: y is x
  NormState attention_post_norm, mlp_post_norm;  // when the model has them
  Operand raw_qkv, head_rstd;  // before the norms of heads, when the model has them
  LatentState latent;          // of latent attention
  Operand qkv, attention, statistics;
  // Where context ranks exchange heads: those of whole sequences that this rank has of qkv (in its
  // place) and of attention's output.
  Operand whole_qkv, whole_attention;
  Operand up, activation;
  ExpertState experts;                            // of a layer with experts, instead
  std::array<Operand, kProductCount> low;         // of the adapters, by Product
  std::array<NarrowState, kProductCount> narrow;  // of products in 8 bits, by Product
  Operand gathered_attention_input,
      gathered_mlp_input;  // when sequence parallelism does not gather them again
  // Left by the input gradient for the weight gradient.
  Operand d_down, d_up, d_output, d_qkv;
  bool on_host = false;  // what forward left (kept_on_host.h)
};

class LayerWriter {
 public:
  // `layer` of the model; `recompute` whether its forward is repeated whole.
  LayerWriter(Writer& writer, std::int64_t layer, bool recompute);

  // Returns the residual stream after the layer.
  Operand forward(const Operand& x, LayerState& state);
  // Repeats of the forward what the plan did not keep.
  void recompute(LayerState& state);
  // Returns the gradient of the layer's input; none, where nothing below is trained and adapters
  // end it early. Writes the weight gradients beside it unless `split`; those of adapters always.
  Operand backward(const Operand& dy, LayerState& state, bool split);
  void weight_gradients(LayerState& state);

 private:
  [[nodiscard]] bool recomputes(std::uint16_t module) const;
  // The norm of what a half reads, and its gradient with what goes past the half.
  NormState read(const char* name, const Operand& x, const NormSlots& slots);
  Operand read_gradient(const char* name, const Operand& dy, const NormState& state,
                        const NormSlots& slots, const Operand& residual);
  // What is done to a half's output before it joins the stream, and back.
  Operand leave(const char* name, const Operand& output, NormState& state, const NormSlots& slots);
  Operand leave_gradient(const char* name, const Operand& dy, const NormState& state,
                         const NormSlots& slots);
  void forward_attention_norm(const Operand& x, LayerState& state);
  void forward_mlp_norm(const Operand& x, const Operand& middle, LayerState& state);
  Operand forward_mlp(LayerState& state);
  void forward_qkv(LayerState& state);
  void turn(const Operand& qkv, bool inverse);
  void forward_head_norm(LayerState& state);
  void head_norm_gradient(LayerState& state);
  // Whether context ranks share sequences in this way.
  [[nodiscard]] bool shares_by(ContextForm form) const;
  [[nodiscard]] bool exchanges_heads() const { return shares_by(ContextForm::kExchangeHeads); }
  Operand spread_heads(const char* name, const Operand& rows, std::int64_t kv_heads);
  Operand collect_heads(const char* name, const Operand& rows, std::int64_t kv_heads);
  void forward_attention(LayerState& state);
  Operand forward_output(const Operand& x, LayerState& state);
  void forward_up(LayerState& state);
  void forward_activation(LayerState& state);
  Operand forward_down(LayerState& state);
  void drop_unkept(LayerState& state);
  void drop_inputs(LayerState& state) const;
  void repeat_all(LayerState& state);
  void repeat_mlp(LayerState& state);

  // The layer's products, in 8 bits or as they are.
  [[nodiscard]] LayerProduct shape_of(Product product) const;
  Operand multiply(const char* name, Product product, const Operand& x, LayerState& state);
  Operand input_gradient(const char* name, Product product, const Operand& dy, LayerState& state);
  void weight_gradient(const char* name, Product product, const Operand& dy, const Operand& x,
                       LayerState& state);
  static NarrowState& narrow_of(Product product, LayerState& state) {
    return state.narrow[static_cast<std::size_t>(product)];
  }
  static Operand& low_of(Product product, LayerState& state) {
    return state.low[static_cast<std::size_t>(product)];
  }
  [[nodiscard]] bool has_adapter(Product product) const;
  [[nodiscard]] Adapter adapter(Product product) const;
  // Beside the product of x that gave y.
  void forward_adapter(Product product, const Operand& x, const Operand& y, LayerState& state);
  // Whether a backward reads the product's input, and whether the step's backward ends at it.
  [[nodiscard]] bool reads_input(Product product, const Slot& weight, bool split) const;
  [[nodiscard]] bool ends_at(Product product) const;
  // The adapter's part of the input's gradient, and what its own weights' gradients read then.
  AdapterGradients adapter_gradient(Product product, const LayerState& state, const Operand& dy,
                                    const Operand& x, const Operand& dx);
  void finish_adapter(Product product, const AdapterGradients& from);

  Operand backward_mlp(const Operand& dy, LayerState& state, bool split);
  Operand backward_attention(const Operand& dy, LayerState& state, bool split);
  void backward_qkv_gradient(LayerState& state, const Operand& d_attention);
  void attention_gradient(LayerState& state, const Operand& d_attention);
  void context_attention_gradient(LayerState& state, const Operand& d_attention);
  Operand own_keys(const LayerState& state);
  Operand all_keys(const LayerState& state);
  void ring_attention(LayerState& state);
  void ring_attention_gradient(LayerState& state, const Operand& d_attention);
  Operand attention_input(LayerState& state);
  Operand mlp_input(LayerState& state);
  void down_weight_gradient(LayerState& state);
  void up_weight_gradient(LayerState& state, const Operand& input);
  void output_weight_gradient(LayerState& state);
  void qkv_weight_gradient(LayerState& state, const Operand& input);

  Writer& w_;
  const LayerSlots& slots_;
  std::int64_t layer_;
  bool recompute_all_, sparse_;
  KeptCodes codes_;
};

// Whether the plan repeats this layer's whole forward; `place` is its place in its chunk.
bool repeats_layer(const Plan& plan, std::int64_t place);

}  // namespace trireme::planner::lowering
