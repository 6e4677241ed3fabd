// Products of each expert with its rows, whose numbers are known only in the step: all in one
// launch where grouped_products.h has them, else one launch an expert.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "core/program.h"
#include "runtime/backend.h"
#include "runtime/cuda/lanes.h"
#include "runtime/cuda/matmul.h"

namespace trireme::runtime::cuda {

// Whether work of Kernel::kExpertMatmul is one launch, which reads the counts on the device.
bool multiplies_grouped(const Work& work, std::span<const View> operands);
// Such work.
void grouped_expert_products(const Work& work, std::span<const View> operands, void* workspace,
                             cudaStream_t stream);

// Work of Kernel::kExpertMatmul with its operands, an expert after the other; `counts` on the host.
void expert_products(const Work& work, std::span<const View> operands,
                     std::span<const std::int32_t> counts, MatmulLibrary& matmuls, void* workspace,
                     cudaStream_t stream);
// Runs one expert's product with every number of rows whose algorithm a step may need.
void rehearse_expert_products(const Work& work, std::span<const View> operands,
                              MatmulLibrary& matmuls, void* workspace, cudaStream_t stream);

// The same of Kernel::kExpertNarrowMatmul, which no grouped kernel multiplies yet (cuBLASLt 13.1
// has no product of several sizes): experts take turns on the lanes, where there are any, so that
// several run at once, each with its part of the workspace.
void narrow_experts(const Work& work, std::span<const View> operands,
                    std::span<const std::int32_t> counts, MatmulLibrary& matmuls, void* workspace,
                    cudaStream_t stream, const Lanes* lanes);
void rehearse_narrow_experts(const Work& work, std::span<const View> operands,
                             MatmulLibrary& matmuls, void* workspace, cudaStream_t stream);

}  // namespace trireme::runtime::cuda
