// Pass 6 for layers that are timed and not executed: all of other frameworks', and of this
// project's those outside core/kernels.h's table (latent attention, parallel blocks, ALiBi, extra
// norms, experts with a capacity or biases). Their ops are those of models/work.h, part by part.
#pragma once

#include "models/work.h"
#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

struct ModelledState {
  Operand x, middle;           // the residual stream before attention and before the MLP
  Operand attention, mlp;      // all that each half keeps
  Operand d_attention, d_mlp;  // all that the second half of a split backward reads
};

class ModelledLayer {
 public:
  ModelledLayer(Writer& writer, std::int64_t layer, bool recompute);

  Operand forward(const Operand& x, ModelledState& state);
  void recompute(ModelledState& state, const Operand& dy);
  Operand backward(const Operand& dy, ModelledState& state, bool split);
  void weight_gradients(ModelledState& state);

 private:
  using Half = models::Half;
  // Which products of a half: by where their rank's share is summed, or all. Weight gradients of
  // routed experts are apart: they come before their tokens' gradients travel back.
  enum class Which : std::uint8_t { kAll, kColumns, kOthers, kRouted };

  void attention_half(const models::PassWork& work, ModelledState& state);
  Operand mlp_half(const models::PassWork& work, ModelledState& state);
  Operand finish_half(Half half, const Operand& kept, const Operand& stream);
  void repeat_modules(ModelledState& state);
  Operand backward_half(Half half, const Operand& dy, const ModelledState& state, Operand& d_kept,
                        bool split);
  void weight_products(Half half, Which which, const Operand& d_output, const Operand& kept);
  [[nodiscard]] Operand gather_again(Half half, const Operand& kept);

  void products(const models::PassWork& work, Half half, bool routed, Which which,
                const Operand& input, const Operand& output);
  void pass(const models::PassWork& work, Half half, const Operand& input, const Operand& output);
  void core_attention(const models::PassWork& work, bool backward, const Operand& kept,
                      const Operand& output);
  void share_scores(bool backward, const Operand& kept, const Operand& output);
  Operand gather_keys(const models::AttentionWork& attention, const Operand& kept);
  Operand scatter_gradients(const models::AttentionWork& attention, const Operand& kept);
  void ring_attention(const models::AttentionWork& attention, bool backward, const Operand& kept,
                      const Operand& output);
  void merge_steps(const models::AttentionWork& attention, bool backward, const Operand& keys,
                   const Operand& output);
  void exchange_heads(const models::AttentionWork& attention, const Operand& kept);
  void attention_piece(const models::AttentionWork& attention, std::int64_t keys, bool backward,
                       const Operand& kept, const Operand& output);
  Operand exchange_tokens(const char* name, const Operand& tokens, bool to_experts);
  [[nodiscard]] double share_of(Half half) const;
  [[nodiscard]] double kept_bytes() const;
  [[nodiscard]] std::int64_t kept_elements(Half half) const;
  [[nodiscard]] std::int64_t postponed_elements(Half half) const;
  [[nodiscard]] std::int64_t working_elements(bool routed, std::int64_t exchanged) const;
  [[nodiscard]] const Slot& slot(bool routed) const;
  [[nodiscard]] bool is_own() const;

  Writer& w_;
  const LayerSlots& slots_;
  std::int64_t layer_;
  bool recompute_, sparse_;
  models::Shard shard_;
  models::LayerWork work_;
};

}  // namespace trireme::planner::lowering
