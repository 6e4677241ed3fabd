#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/cuda/bench.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/communicators.h"

namespace trireme::runtime::cuda {
namespace {

constexpr std::int64_t kOverlapLargest = 512 * kMiB;

struct GroupBench {
  Bench& bench;
  Coordinator& coordinator;
  ncclComm_t communicator;
  int ranks, rank;
};

ncclResult_t queue_collective(const GroupBench& group, const std::string& operation,
                              std::byte* from, std::byte* to, std::int64_t bytes,
                              cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(bytes / 2);
  const auto part = count / static_cast<std::size_t>(group.ranks);
  const ncclComm_t comm = group.communicator;
  if (operation == "all_reduce") {
    return ncclAllReduce(from, to, count, ncclBfloat16, ncclSum, comm, stream);
  }
  if (operation == "all_gather") {
    return ncclAllGather(from, to, part, ncclBfloat16, comm, stream);
  }
  if (operation == "reduce_scatter") {
    return ncclReduceScatter(from, to, part, ncclBfloat16, ncclSum, comm, stream);
  }
  if (operation == "broadcast") {
    return ncclBroadcast(from, to, count, ncclBfloat16, 0, comm, stream);
  }
  ncclGroupStart();
  if (operation == "send_recv") {  // each rank to the next one, as in a pipeline
    ncclSend(from, count, ncclBfloat16, (group.rank + 1) % group.ranks, comm, stream);
    ncclRecv(to, count, ncclBfloat16, (group.rank + group.ranks - 1) % group.ranks, comm, stream);
  } else {
    for (int peer = 0; peer < group.ranks; ++peer) {
      const std::size_t at = static_cast<std::size_t>(peer) * part * 2;
      ncclSend(from + at, part, ncclBfloat16, peer, comm, stream);
      ncclRecv(to + at, part, ncclBfloat16, peer, comm, stream);
    }
  }
  return ncclGroupEnd();
}

int repeats_for(std::int64_t bytes) {
  return static_cast<int>(
      std::clamp<std::int64_t>(512 * kMiB / std::max<std::int64_t>(bytes, 1), 3, 40));
}

void measure_group(const GroupBench& group, Microbenchmarks& found) {
  const std::int64_t largest = group.bench.quick() ? 256 * kMiB : 1024 * kMiB;
  const DeviceBytes from = group.bench.random(static_cast<std::size_t>(largest));
  const DeviceBytes to(static_cast<std::size_t>(largest), "collective results");
  for (const char* operation :
       {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"}) {
    group.bench.progress(0.7 + 0.25 * group.ranks / 8.0,
                         std::string(operation) + " over " + std::to_string(group.ranks));
    for (std::int64_t bytes = 16384; bytes <= largest; bytes *= group.bench.quick() ? 8 : 4) {
      const StopwatchSettings watch{
          .samples = 5, .sample_seconds = 0, .repeats = repeats_for(bytes)};
      const Timing timing = time_on_stream(group.bench.stream(), watch, [&](int) {
        check(
            queue_collective(group, operation, from.data(), to.data(), bytes, group.bench.stream()),
            operation);
      });
      found.collectives.push_back({operation, group.ranks, Bytes(bytes), timing});
    }
  }
}

// From the first rank to the second, as the runtime sends between pipeline stages.
void measure_messages(const GroupBench& group, Microbenchmarks& found) {
  constexpr std::int64_t kLargest = 128 * kMiB;
  const DeviceBytes memory = group.bench.random(static_cast<std::size_t>(kLargest));
  group.bench.progress(0.96, "messages");
  for (std::int64_t bytes = kMiB / 4; bytes <= kLargest; bytes *= group.bench.quick() ? 8 : 2) {
    const StopwatchSettings watch{.samples = 5, .sample_seconds = 0, .repeats = repeats_for(bytes)};
    const auto count = static_cast<std::size_t>(bytes / 2);
    const Timing timing = time_on_stream(group.bench.stream(), watch, [&](int) {
      check(group.rank == 0 ? ncclSend(memory.data(), count, ncclBfloat16, 1, group.communicator,
                                       group.bench.stream())
                            : ncclRecv(memory.data(), count, ncclBfloat16, 0, group.communicator,
                                       group.bench.stream()),
            "message");
    });
    found.messages.push_back({"message", 2, Bytes(bytes), timing});
  }
}

// Of a collective that takes about 1.5 ms here: long beside products on a fast link, not endless on
// a slow one. The same on all ranks.
std::int64_t overlap_bytes(const GroupBench& group, std::byte* from, std::byte* to) {
  constexpr double kSeconds = 1.5e-3;
  const std::int64_t probe = 16 * kMiB;
  const Timing timing = time_on_stream(
      group.bench.other_stream(), {.samples = 3, .sample_seconds = 0, .repeats = 3}, [&](int) {
        check(queue_collective(group, "all_reduce", from, to, probe, group.bench.other_stream()),
              "overlap");
      });
  const double wanted = static_cast<double>(probe) * kSeconds / timing.median.value;
  const std::int64_t mebibytes =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(wanted) / kMiB, 1, kOverlapLargest / kMiB);
  return std::stoll(group.coordinator.broadcast(std::to_string(mebibytes))) * kMiB;
}

// How products and a long collective slow each other down. The products are short beside the
// collective, which may have to wait for one that runs on every multiprocessor.
void measure_overlap(const GroupBench& group, Microbenchmarks& found) {
  Bench& bench = group.bench;
  constexpr std::int64_t kSide = 4096;
  constexpr std::size_t kOperand = std::size_t{kSide} * kSide * 2;
  const MatmulSample shape{kSide, kSide, kSide, MatmulLayout::kForward, {}};
  const DeviceBytes operands = bench.random(2 * kOperand);
  const DeviceBytes product(kOperand, "overlap");
  const DeviceBytes from = bench.random(static_cast<std::size_t>(kOverlapLargest));
  const DeviceBytes to(static_cast<std::size_t>(kOverlapLargest), "overlap");
  const std::int64_t bytes = overlap_bytes(group, from.data(), to.data());
  const auto multiply = [&](int) {
    bench.matmuls().run(call_of(shape), operands.data(), operands.data() + kOperand, product.data(),
                        bench.workspace(), bench.stream());
  };
  // To the clocks that sustained work has: the first half second runs faster.
  time_on_stream(bench.stream(), {.samples = 2, .sample_seconds = 0, .repeats = 1500}, multiply);
  for (const char* operation : {"all_gather", "reduce_scatter", "all_reduce"}) {
    const auto communicate = [&](int) {
      check(queue_collective(group, operation, from.data(), to.data(), bytes, bench.other_stream()),
            operation);
    };
    const StopwatchSettings products{.samples = 5, .sample_seconds = 0, .repeats = 50};
    const StopwatchSettings messages{.samples = 5, .sample_seconds = 0, .repeats = 5};
    OverlapSample sample;
    sample.operation = operation;
    sample.compute_alone = time_on_stream(bench.stream(), products, multiply);
    group.coordinator.barrier();
    sample.collective_alone = time_on_stream(bench.other_stream(), messages, communicate);
    // Each is timed while the other is queued for longer than the timing lasts.
    group.coordinator.barrier();
    for (int i = 0; i < 100; ++i) {
      communicate(i);
    }
    sample.compute_beside = time_on_stream(bench.stream(), products, multiply);
    check(cudaStreamSynchronize(bench.other_stream()), "overlap");
    group.coordinator.barrier();
    for (int i = 0; i < 800; ++i) {
      multiply(i);
    }
    sample.collective_beside = time_on_stream(bench.other_stream(), messages, communicate);
    check(cudaStreamSynchronize(bench.stream()), "overlap");
    found.overlaps.push_back(sample);
  }
}

}  // namespace

namespace {

// On the ranks of the group; null on the others.
ncclComm_t join(Coordinator& coordinator, CommunicatorUse use, int ranks, Seconds timeout) {
  const auto rank = static_cast<int>(index_of(coordinator.rank()));
  ncclUniqueId id{};
  if (rank == 0) {
    check(ncclGetUniqueId(&id), "NCCL unique id");
  }
  std::string blob(reinterpret_cast<const char*>(&id), sizeof(id));
  blob = coordinator.broadcast(blob);
  std::memcpy(&id, blob.data(), sizeof(id));
  return rank < ranks ? make_communicator(id, use, ranks, rank, timeout) : nullptr;
}

}  // namespace

void measure_collectives(Bench& bench, Coordinator& coordinator, Seconds timeout,
                         Microbenchmarks& found) {
  const auto all = static_cast<int>(coordinator.ranks());
  const auto rank = static_cast<int>(index_of(coordinator.rank()));
  const auto measure = [&](CommunicatorUse use, int ranks, const auto& body) {
    if (ncclComm_t communicator = join(coordinator, use, ranks, timeout)) {
      body(GroupBench{bench, coordinator, communicator, ranks, rank});
      ncclCommAbort(communicator);
    }
    coordinator.barrier();
  };
  for (int ranks = 2; ranks <= all; ranks *= 2) {
    measure(CommunicatorUse::kCollectives, ranks, [&](const GroupBench& group) {
      measure_group(group, found);
      if (ranks == all) {
        measure_overlap(group, found);
      }
    });
  }
  if (all > 1) {
    measure(CommunicatorUse::kMessages, 2,
            [&](const GroupBench& group) { measure_messages(group, found); });
  }
}

}  // namespace trireme::runtime::cuda
