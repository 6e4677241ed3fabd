#include "planner/walk/state_pass.h"

namespace trireme::planner {

// A residual moves 6 bytes an element; adding gradients in fp32 twice that.
bool adds_gradients(const Work& work) {
  return work.kernel == Kernel::kAdd && work.traffic.value >= 7 * work.dims[0];
}

bool is_state_pass(const Work& work) {
  const Kernel kernel = work.kernel;
  return adds_gradients(work) || kernel == Kernel::kCast || kernel == Kernel::kZero ||
         kernel == Kernel::kSquaredNorm || kernel == Kernel::kClipFactor ||
         kernel == Kernel::kAdamw || kernel == Kernel::kAdamwCast ||
         (kernel == Kernel::kModelledPass && work.dims[1] != 0);
}

}  // namespace trireme::planner
