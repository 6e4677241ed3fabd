#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <functional>
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
  const char* what = operation.c_str();
  check(ncclGroupStart(), what);
  if (operation == "send_recv") {  // each rank to the next one, as in a pipeline
    const int before = (group.rank + group.ranks - 1) % group.ranks;
    const int after = (group.rank + 1) % group.ranks;
    check(ncclSend(from, count, ncclBfloat16, after, comm, stream), what);
    check(ncclRecv(to, count, ncclBfloat16, before, comm, stream), what);
  } else {
    for (int peer = 0; peer < group.ranks; ++peer) {
      const std::size_t at = static_cast<std::size_t>(peer) * part * 2;
      check(ncclSend(from + at, part, ncclBfloat16, peer, comm, stream), what);
      check(ncclRecv(to + at, part, ncclBfloat16, peer, comm, stream), what);
    }
  }
  return ncclGroupEnd();
}

// The longest of the times that the ranks found, in seconds: the same on all of them.
double longest_of_ranks(const GroupBench& group, double seconds) {
  const DeviceBytes shared(sizeof(double), "a timing");
  cudaStream_t stream = group.bench.stream();
  check(cudaMemcpyAsync(shared.data(), &seconds, sizeof(double), cudaMemcpyHostToDevice, stream),
        "a timing");
  check(ncclAllReduce(shared.data(), shared.data(), 1, ncclDouble, ncclMax, group.communicator,
                      stream),
        "a timing");
  check(cudaMemcpyAsync(&seconds, shared.data(), sizeof(double), cudaMemcpyDeviceToHost, stream),
        "a timing");
  check(cudaStreamSynchronize(stream), "a timing");
  return seconds;
}

// Times one operation over growing sizes, as long as a single one takes less than a quarter of a
// second: a link of 1 GB/s has shown its bandwidth by then, and would take minutes for the rest.
void sweep_sizes(const GroupBench& group, std::int64_t first, std::int64_t largest, int step,
                 const std::function<void(std::int64_t)>& queue,
                 const std::function<void(Bytes, Timing)>& keep) {
  constexpr double kLongest = 0.25;
  const StopwatchSettings watch{
      .samples = 5, .sample_seconds = 10e-3, .agree = [&group](double seconds) {
        return longest_of_ranks(group, seconds);
      }};
  for (std::int64_t bytes = first; bytes <= largest; bytes *= step) {
    const Timing timing = time_on_stream(group.bench.stream(), watch, [&](int) { queue(bytes); });
    keep(Bytes(bytes), timing);
    if (longest_of_ranks(group, timing.median.value) > kLongest) {
      return;
    }
  }
}

void measure_group(const GroupBench& group, Microbenchmarks& found) {
  const std::int64_t largest = group.bench.quick() ? 256 * kMiB : 1024 * kMiB;
  const DeviceBytes from = group.bench.random(static_cast<std::size_t>(largest));
  const DeviceBytes to(static_cast<std::size_t>(largest), "collective results");
  for (const char* operation :
       {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"}) {
    group.bench.progress(0.7 + 0.25 * group.ranks / 8.0,
                         std::string(operation) + " over " + std::to_string(group.ranks));
    sweep_sizes(
        group, 16384, largest, group.bench.quick() ? 8 : 4,
        [&](std::int64_t bytes) {
          check(queue_collective(group, operation, from.data(), to.data(), bytes,
                                 group.bench.stream()),
                operation);
        },
        [&](Bytes bytes, Timing timing) {
          found.collectives.push_back({operation, group.ranks, bytes, timing});
        });
  }
}

// From the first rank to the second, as the runtime sends between pipeline stages.
void measure_messages(const GroupBench& group, Microbenchmarks& found) {
  constexpr std::int64_t kLargest = 128 * kMiB;
  const DeviceBytes memory = group.bench.random(static_cast<std::size_t>(kLargest));
  group.bench.progress(0.96, "messages");
  sweep_sizes(
      group, kMiB / 4, kLargest, group.bench.quick() ? 8 : 2,
      [&](std::int64_t bytes) {
        const auto count = static_cast<std::size_t>(bytes / 2);
        cudaStream_t stream = group.bench.stream();
        check(group.rank == 0
                  ? ncclSend(memory.data(), count, ncclBfloat16, 1, group.communicator, stream)
                  : ncclRecv(memory.data(), count, ncclBfloat16, 0, group.communicator, stream),
              "message");
      },
      [&](Bytes bytes, Timing timing) {
        found.messages.push_back({"message", 2, bytes, timing});
      });
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
  const double once = longest_of_ranks(group, timing.median.value);
  const double wanted = static_cast<double>(probe) * kSeconds / once;
  return kMiB * std::clamp<std::int64_t>(static_cast<std::int64_t>(wanted) / kMiB, 1,
                                         kOverlapLargest / kMiB);
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
