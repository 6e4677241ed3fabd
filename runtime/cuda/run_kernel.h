// One row of core/kernels.h after the other: from a Compute op's work and operands to the launch
// that does it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/program.h"
#include "runtime/backend.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/host_counts.h"
#include "runtime/cuda/lanes.h"
#include "runtime/cuda/matmul.h"

namespace trireme::runtime::cuda {

// What a launch may use besides its operands.
struct KernelContext {
  const StepProgram* program = nullptr;
  Rank rank{};
  const StepSettings* settings = nullptr;
  MatmulLibrary* matmuls = nullptr;
  AttentionLibrary* attention = nullptr;
  cudaStream_t stream = nullptr;
  void* matmul_workspace = nullptr;  // the stream's
  std::byte* scratch = nullptr;      // the stream's, scratch_bytes_of(work) at least
  std::size_t scratch_bytes = 0;
  const HostCounts* counts = nullptr;  // null: kernels with counts run their rehearsal
  const Lanes* lanes = nullptr;        // beside the stream; null: none
};

// Scratch that the work's kernel needs.
std::size_t scratch_bytes_of(const Work& work);
// Queues the work. Throws Error: a kernel that is only modelled, a size that the kernels do not
// take (rows must be multiples of 8 elements), or a launch that failed.
void run_kernel(const KernelContext& context, const Work& work, std::span<const View> operands);

}  // namespace trireme::runtime::cuda
