// Exchanges between all members of a group, of as many elements for each as the caller says.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/backend.h"

namespace trireme::runtime::cuda {

ncclDataType_t nccl_type(ElementType type);
std::size_t bytes_of(const View& view);

struct Exchange {
  ncclComm_t communicator = nullptr;
  View input, output;
  std::vector<std::int64_t> sent, arriving;  // elements by member, one member's behind the other's
};
// Queues it.
void run_exchange(const Exchange& exchange, cudaStream_t stream);
// Elements to or from each member, of rows of `row`; as many counts belong to each.
std::vector<std::int64_t> elements_of(std::span<const std::int32_t> counts, std::int64_t members,
                                      std::int64_t row);

}  // namespace trireme::runtime::cuda
