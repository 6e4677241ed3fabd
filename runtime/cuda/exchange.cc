#include "runtime/cuda/exchange.h"

#include "runtime/cuda/check.h"

namespace trireme::runtime::cuda {

ncclDataType_t nccl_type(ElementType type) {
  return type == ElementType::kCompute  ? ncclBfloat16
         : type == ElementType::kMaster ? ncclFloat32
                                        : ncclInt32;
}

std::size_t bytes_of(const View& view) {
  return static_cast<std::size_t>(view.count) * (view.type == ElementType::kCompute ? 2 : 4);
}

void run_exchange(const Exchange& exchange, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(exchange.input.type);
  const std::int64_t width = exchange.input.type == ElementType::kCompute ? 2 : 4;
  auto* from = static_cast<std::byte*>(exchange.input.data);
  auto* to = static_cast<std::byte*>(exchange.output.data);
  check(ncclGroupStart(), "all_to_all");
  for (std::size_t peer = 0; peer < exchange.sent.size(); ++peer) {
    const std::int64_t sent = exchange.sent[peer];
    const std::int64_t arriving = exchange.arriving[peer];
    if (sent > 0) {
      check(ncclSend(from, static_cast<std::size_t>(sent), type, static_cast<int>(peer),
                     exchange.communicator, stream),
            "all_to_all");
    }
    if (arriving > 0) {
      check(ncclRecv(to, static_cast<std::size_t>(arriving), type, static_cast<int>(peer),
                     exchange.communicator, stream),
            "all_to_all");
    }
    from += sent * width;
    to += arriving * width;
  }
  check(ncclGroupEnd(), "all_to_all");
}

std::vector<std::int64_t> elements_of(std::span<const std::int32_t> counts, std::int64_t members,
                                      std::int64_t row) {
  const std::size_t each = counts.size() / static_cast<std::size_t>(members);
  std::vector<std::int64_t> elements(static_cast<std::size_t>(members), 0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    elements[i / each] += counts[i] * row;
  }
  return elements;
}

}  // namespace trireme::runtime::cuda
