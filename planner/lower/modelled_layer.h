// Pass 6 for layers outside core/kernels.h's executable table: experts, latent attention, parallel
// blocks, ALiBi, extra norms, and any layer under context parallelism. Their products, attention,
// passes over memory and collectives are those of models/work.h, as ops that a simulator times and
// no runtime executes.
#pragma once

#include "models/work.h"
#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

struct ModelledState {
  Operand x, middle;           // the residual stream before attention and before the MLP
  Operand attention, mlp;      // all that each half keeps
  Operand d_attention, d_mlp;  // between the halves of a split backward
};

class ModelledLayer {
 public:
  ModelledLayer(Writer& writer, std::int64_t layer, bool recompute);

  Operand forward(const Operand& x, ModelledState& state);
  void recompute(ModelledState& state);
  Operand backward(const Operand& dy, ModelledState& state, bool split);
  void weight_gradients(ModelledState& state);

 private:
  enum class Half { kAttention, kMlp };

  void attention_half(ModelledState& state);
  Operand mlp_half(ModelledState& state);
  Operand finish_half(Half half, const Operand& kept, const Operand& stream);
  void products(const char* name, const models::PassWork& work, Half half, bool experts,
                const Operand& input, const Operand& output);
  void weight_products(Half half, const Operand& d_output, const Operand& kept);
  void pass(const char* name, const models::PassWork& work, Half half, const Operand& input,
            const Operand& output);
  void core_attention(const models::PassWork& work, bool backward, const Operand& kept,
                      const Operand& output);
  Operand exchange_tokens(const char* name, const Operand& tokens);
  Operand backward_half(Half half, const Operand& dy, const Operand& kept, Operand& d_kept,
                        bool split);
  [[nodiscard]] std::int64_t kept_elements(Half half) const;
  [[nodiscard]] const Slot& slot(bool experts) const;

  Writer& w_;
  const LayerSlots& slots_;
  std::int64_t layer_;
  bool recompute_, sparse_;
  models::Shard shard_;
  models::LayerWork work_;
};

}  // namespace trireme::planner::lowering
