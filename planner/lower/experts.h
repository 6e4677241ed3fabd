// Pass 6, the second half of a layer with experts: their choice, tokens to them and back, their
// products, and the shared expert beside them. Every rank chooses for its own tokens; ranks that
// share experts gather theirs first, each computes its part of an expert, and the sum goes back to
// where the tokens are.
#pragma once

#include "planner/lower/narrow.h"
#include "planner/lower/writer.h"
#include "planner/plan/narrow.h"

namespace trireme::planner::lowering {

// What forward leaves behind.
struct ExpertState {
  Operand logits, weights, chosen;      // of the own tokens
  Operand all_weights, places, counts;  // of those that share experts
  Operand arrived;                      // counts of what came, by sender and own expert
  Operand rows, up, activation;         // of what came, by expert
  Operand output;                       // of the slots, where they were chosen
  Operand shared_up, shared_activation;
  NarrowState narrow_up, narrow_down, narrow_shared_up, narrow_shared_down;  // in 8 bits
  // Left by the input gradient for the weight gradient.
  Operand d_rows, d_up, d_logits, d_shared, d_shared_up;
};

class ExpertWriter {
 public:
  ExpertWriter(Writer& writer, const LayerSlots& slots);

  // What is added to the residual stream; `input` is the norm's output.
  Operand forward(const Operand& input, ExpertState& state);
  // Up to what forward leaves behind.
  void repeat(const Operand& input, ExpertState& state);
  // Forgets what these modules (recompute) repeat, and repeats what is not there.
  static void drop(std::uint16_t modules, ExpertState& state);
  void repeat_dropped(const Operand& input, ExpertState& state);
  // The gradient of `input`, of the tokens of the residual stream.
  Operand backward(const Operand& dy, const Operand& input, ExpertState& state, bool split);
  void weight_gradients(const Operand& input, ExpertState& state);

 private:
  void choose(const Operand& input, ExpertState& state);
  Operand order(const Operand& input, ExpertState& state);
  Operand dispatch(const char* name, const Operand& sorted, const ExpertState& state);
  Operand by_expert(const Operand& received, const ExpertState& state);
  Operand bring_back(const char* name, const Operand& rows, const ExpertState& state);
  void products(ExpertState& state);
  // Inputs whose codes are kept.
  void drop_inputs(ExpertState& state) const;
  [[nodiscard]] Routed routed(const ExpertState& state) const;
  void activate(ExpertState& state);
  // Of the experts' products, as a part of them in 16 bits or in 8.
  [[nodiscard]] LayerProduct up_product(const Routed& routed) const;
  [[nodiscard]] LayerProduct down_product(const Routed& routed) const;
  Operand multiply(const char* name, const LayerProduct& p, const Operand& rows,
                   NarrowState& state);
  Operand input_gradient(const char* name, const LayerProduct& p, const Operand& d_rows,
                         NarrowState& state);
  void weight_gradient(const char* name, const LayerProduct& p, const Operand& d_rows,
                       const Operand& rows, NarrowState& state);
  [[nodiscard]] LayerProduct shared_up() const;
  [[nodiscard]] LayerProduct shared_down() const;
  Operand over_sharers(const char* name, const Operand& own, ElementType type);
  Operand sum_of_sharers(const char* name, const Operand& all, std::int64_t own, ElementType type);
  Operand choice_gradient(const Operand& dy, ExpertState& state, Operand& d_weights);
  void router_gradient(const Operand& d_weights, const Operand& d_input, ExpertState& state);
  void expert_weight_gradients(ExpertState& state);
  void router_weight_gradient(const Operand& input, const ExpertState& state);

  void shared_forward(const Operand& input, ExpertState& state);
  Operand shared_output(ExpertState& state);
  Operand shared_backward(const Operand& dy, const Operand& input, ExpertState& state, bool split);
  void shared_weight_gradients(const Operand& input, ExpertState& state);

  Writer& w_;
  const LayerSlots& slots_;
  const models::MixtureOfExperts& moe_;
  ExpertRanks ranks_;
  std::int64_t own_ = 0, tokens_ = 0;  // tokens here, and of those that share experts
  std::int64_t slots_count_ = 0;       // choices of the latter
  std::int64_t local_ = 0;             // experts of this rank
  std::int64_t ffn_ = 0, up_ = 0;      // of an expert, on this rank
  std::int64_t shared_ffn_ = 0, shared_up_ = 0;
  bool sigmoid_ = false;
  KeptCodes codes_;
};

}  // namespace trireme::planner::lowering
