// Pass 6, the model's two ends: the embedding, and the head with the loss.
#pragma once

#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

struct HeadState {
  NormState norm;
  Operand x;                      // the head's input without final norm
  Operand gathered_input;         // when sequence parallelism does not gather it again
  Operand logits_beside;          // of a modelled head: kept with them, over before their gradient
  Operand logits, maximum, sums;  // logits become their gradient in place
};

// Tokens and targets of a micro-batch are parts of these step-wide operands.
Operand embedding_forward(Writer& w, const Operand& tokens);
void embedding_backward(Writer& w, const Operand& tokens, const Operand& dy);

void head_forward(Writer& w, const Operand& x, const Operand& targets, const Operand& loss,
                  HeadState& state);
// Returns the gradient of the head's input. Writes the weight gradient beside it unless `split`.
Operand head_backward(Writer& w, const Operand& targets, HeadState& state, bool split);
void head_weight_gradient(Writer& w, HeadState& state);

}  // namespace trireme::planner::lowering
