#include "planner/walk/framework_pass.h"

namespace trireme::planner {
namespace {

FrameworkPass scaled(double elements, double bytes, int kernels) {
  return {elements * bytes, kernels};
}

}  // namespace

// A residual moves 6 bytes an element; adding gradients in fp32 twice that.
bool adds_gradients(const Work& work) {
  return work.kernel == Kernel::kAdd && work.traffic.value >= 7 * work.dims[0];
}

FrameworkPass framework_pass(const Work& work, const models::Kernels& kernels) {
  const auto dim = [&](std::size_t i) { return static_cast<double>(work.dims[i]); };
  const models::Implementation implementation = kernels.implementation;
  const models::PassCost norm = models::norm_cost(implementation);
  const models::PassCost residual = models::residual_cost(implementation, kernels.dropout);
  const models::PassCost rotary = models::rotary_cost(implementation);
  const models::PassCost loss = models::cross_entropy_cost(kernels);
  const double rows = dim(0) * dim(1);
  const double heads = dim(0) * (dim(1) + dim(2)) * dim(3);
  const Kernel kernel = work.kernel;
  if (kernel == Kernel::kRmsNormForward || kernel == Kernel::kLayerNormForward) {
    return scaled(rows, norm.forward_bytes, norm.forward_kernels);
  }
  if (kernel == Kernel::kRmsNormBackward || kernel == Kernel::kLayerNormBackward) {
    return scaled(rows, norm.backward_bytes + residual.backward_bytes,
                  norm.backward_kernels + residual.backward_kernels);
  }
  if (kernel == Kernel::kHeadNormForward) {
    return scaled(heads, norm.forward_bytes, 2 * norm.forward_kernels);
  }
  if (kernel == Kernel::kHeadNormBackward) {
    return scaled(heads, norm.backward_bytes, 2 * norm.backward_kernels);
  }
  if (kernel == Kernel::kRotaryForward || kernel == Kernel::kRotaryBackward) {
    return scaled(heads, rotary.forward_bytes, rotary.forward_kernels);
  }
  const bool gated = kernel == Kernel::kSwigluForward || kernel == Kernel::kSwigluBackward;
  const models::PassCost activation = models::activation_cost(implementation, gated);
  if (kernel == Kernel::kSwigluForward || kernel == Kernel::kGeluForward) {
    return scaled(rows, activation.forward_bytes, activation.forward_kernels);
  }
  if (kernel == Kernel::kSwigluBackward || kernel == Kernel::kGeluBackward) {
    return scaled(rows, activation.backward_bytes, activation.backward_kernels);
  }
  if (kernel == Kernel::kLogitStatistics) {
    return scaled(rows, loss.forward_bytes, loss.forward_kernels);
  }
  if (kernel == Kernel::kCrossEntropyBackward) {
    return scaled(rows, loss.backward_bytes, loss.backward_kernels);
  }
  if (kernel == Kernel::kAdd && !adds_gradients(work)) {
    return scaled(dim(0), residual.forward_bytes, residual.forward_kernels);
  }
  const int count = kernel == Kernel::kModelledPass ? static_cast<int>(work.dims[0]) : 1;
  return {static_cast<double>(work.traffic.value), count};
}

bool is_state_pass(const Work& work) {
  const Kernel kernel = work.kernel;
  return adds_gradients(work) || kernel == Kernel::kCast || kernel == Kernel::kZero ||
         kernel == Kernel::kSquaredNorm || kernel == Kernel::kClipFactor ||
         kernel == Kernel::kAdamw || kernel == Kernel::kAdamwCast;
}

}  // namespace trireme::planner
