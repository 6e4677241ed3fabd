#include "runtime/cuda/host_counts.h"

#include <set>

#include "core/check.h"

namespace trireme::runtime::cuda {
namespace {

std::set<BufferId> buffers_of_counts(const Program& role) {
  std::set<BufferId> buffers;
  for (const Op& op : role.ops) {
    const auto add = [&](std::uint32_t operand) {
      buffers.insert(role.operands[op.operands.first + operand].buffer);
    };
    const auto* compute = std::get_if<Compute>(&op.kind);
    const auto* exchange = std::get_if<AllToAll>(&op.kind);
    const int counts =
        compute != nullptr ? counts_of_product(role.works[compute->work].kernel) : -1;
    if (counts >= 0) {
      add(static_cast<std::uint32_t>(counts));
    } else if (exchange != nullptr && exchange->row > 0) {
      add(2);
      add(3);
    }
  }
  return buffers;
}

}  // namespace

HostCounts::HostCounts(const Program& role) {
  const std::set<BufferId> buffers = buffers_of_counts(role);
  std::size_t total = 0;
  for (const BufferId buffer : buffers) {
    total += static_cast<std::size_t>(role.buffers[index_of(buffer)].elements);
  }
  if (total == 0) {
    return;
  }
  void* memory = nullptr;
  check(cudaMallocHost(&memory, total * sizeof(std::int32_t)), "counts of experts' rows");
  pinned_ = static_cast<std::int32_t*>(memory);
  std::int32_t* next = pinned_;
  for (const BufferId buffer : buffers) {
    copies_[buffer].values = next;
    next += role.buffers[index_of(buffer)].elements;
  }
}

HostCounts::~HostCounts() {
  cudaFreeHost(pinned_);
}

void HostCounts::mirror(const View& written, cudaStream_t stream) {
  const auto found = copies_.find(written.buffer);
  if (found == copies_.end()) {
    return;
  }
  check(cudaMemcpyAsync(found->second.values, written.data,
                        static_cast<std::size_t>(written.count) * sizeof(std::int32_t),
                        cudaMemcpyDeviceToHost, stream),
        "counts of experts' rows");
  check(cudaEventRecord(found->second.done.raw(), stream), "counts of experts' rows");
}

std::span<const std::int32_t> HostCounts::read(const View& counts) const {
  const auto found = copies_.find(counts.buffer);
  TRIREME_CHECK(found != copies_.end());
  check(cudaEventSynchronize(found->second.done.raw()), "counts of experts' rows");
  return {found->second.values, static_cast<std::size_t>(counts.count)};
}

}  // namespace trireme::runtime::cuda
