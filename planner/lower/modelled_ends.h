// Pass 6, the model's two ends as other frameworks run them: their parts of models/work.h, timed
// and not executed. As planner/lower/ends.h otherwise.
#pragma once

#include "planner/lower/ends.h"

namespace trireme::planner::lowering {

class ModelledEnds {
 public:
  explicit ModelledEnds(Writer& writer);

  Operand embedding_forward(const Operand& tokens);
  void embedding_backward(const Operand& tokens, const Operand& dy);
  void head_forward(const Operand& x, const Operand& targets, const Operand& loss,
                    HeadState& state);
  Operand head_backward(const Operand& targets, HeadState& state, bool split);
  void head_weight_gradient(HeadState& state);
  // Behind the last micro-batch.
  void end_step();

 private:
  Operand head_input(HeadState& state);
  void products(const models::PassWork& work, const Operand& input, const Operand& weight,
                const Operand& output);
  void reduce_loss();
  void keep_output(const HeadState& state);

  Writer& w_;
  models::LayerWork embedding_, head_;
  std::vector<Operand> outputs_;  // of micro-batches that are done, where those stay
  std::int64_t modules_ = 0;      // extra prediction modules, whose logits are the head's too
};

}  // namespace trireme::planner::lowering
