// Counts of routed rows on the host: products and exchanges of rows are launched by sizes that the
// device works out. What an op writes is copied behind it; who needs it waits for that copy alone,
// and in the backward it is long there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <span>

#include "core/program.h"
#include "runtime/backend.h"
#include "runtime/cuda/device_objects.h"

namespace trireme::runtime::cuda {

// The operand of a product of experts that says how many rows each has; -1: it is none.
constexpr int counts_of_product(Kernel kernel) {
  return kernel == Kernel::kExpertMatmul ? 3 : kernel == Kernel::kExpertNarrowMatmul ? 5 : -1;
}

class HostCounts {
 public:
  // Of the buffers that ops of the role read as counts.
  explicit HostCounts(const Program& role);
  ~HostCounts();
  HostCounts(const HostCounts&) = delete;
  HostCounts& operator=(const HostCounts&) = delete;
  HostCounts(HostCounts&&) = delete;
  HostCounts& operator=(HostCounts&&) = delete;

  // Queues a copy of `written`, when it is counts, behind what `stream` has.
  void mirror(const View& written, cudaStream_t stream);
  // Waits for the last copy of the buffer.
  [[nodiscard]] std::span<const std::int32_t> read(const View& counts) const;

 private:
  struct Copy {
    std::int32_t* values = nullptr;
    Event done{cudaEventDisableTiming};
  };
  std::int32_t* pinned_ = nullptr;
  std::map<BufferId, Copy> copies_;
};

}  // namespace trireme::runtime::cuda
