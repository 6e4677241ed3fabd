// Pass 8: gradient norm, clipping and AdamW over the stage's units, and the loss over all data
// ranks.
#pragma once

#include "planner/lower/writer.h"

namespace trireme::planner::lowering {

// Adds the norm's and the loss's last ops and fills Program::gradient_norm.
void write_optimizer(Writer& w, const StepProgram& step, const Operand& loss, Program& program);

}  // namespace trireme::planner::lowering
