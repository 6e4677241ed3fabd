// Which passes over memory are over parameters and their states.
#pragma once

#include "core/program.h"

namespace trireme::planner {

// Sums of gradients in fp32, not of the residual stream.
bool adds_gradients(const Work& work);
// Passes over parameters and their states, which stream at the memory's rate.
bool is_state_pass(const Work& work);

}  // namespace trireme::planner
