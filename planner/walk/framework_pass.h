// A pass over memory as a framework's kernels do it, where this project's runtime has one kernel.
#pragma once

#include "core/program.h"
#include "models/pass_cost.h"

namespace trireme::planner {

struct FrameworkPass {
  double bytes = 0;  // read plus written
  int kernels = 1;
};

// By models/pass_cost.h; what it does not count stays as the program has it.
FrameworkPass framework_pass(const Work& work, const models::Kernels& kernels);

// Sums of gradients in fp32, not of the residual stream.
bool adds_gradients(const Work& work);
// Passes over parameters and their states, which stream at the memory's rate.
bool is_state_pass(const Work& work);

}  // namespace trireme::planner
