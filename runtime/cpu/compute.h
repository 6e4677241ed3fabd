// The kernel table of core/kernels.h on the CPU: one function that runs a Compute op on its
// operands.
#pragma once

#include <span>

#include "core/program.h"
#include "runtime/backend.h"

namespace trireme::runtime::cpu {

struct ComputeContext {
  const StepProgram* program = nullptr;
  Rank rank{};
  StepSettings settings;
  bool round_to_bf16 = false;  // every compute-type result is rounded to bfloat16, to nearest even
};

// T holds both compute and master elements. Throws Error on work that is only modelled.
template <typename T>
void run_kernel(const ComputeContext& context, const Work& work, std::span<const View> operands);

// Rounds to the nearest bfloat16, ties to even.
template <typename T>
void round_to_bf16(std::span<T> values);

}  // namespace trireme::runtime::cpu
