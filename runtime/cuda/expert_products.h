// Products of each expert with its rows, one launch an expert: their sizes are known only in the
// step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "core/program.h"
#include "runtime/backend.h"
#include "runtime/cuda/matmul.h"

namespace trireme::runtime::cuda {

// Work of Kernel::kExpertMatmul with its operands; `counts` on the host.
void expert_products(const Work& work, std::span<const View> operands,
                     std::span<const std::int32_t> counts, MatmulLibrary& matmuls, void* workspace,
                     cudaStream_t stream);
// Runs one expert's product with every number of rows whose algorithm a step may need.
void rehearse_expert_products(const Work& work, std::span<const View> operands,
                              MatmulLibrary& matmuls, void* workspace, cudaStream_t stream);

}  // namespace trireme::runtime::cuda
