#include "runtime/cuda/microbench.h"

#include <cudnn.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/matmul.h"
#include "runtime/cuda/random_fill.h"
#include "runtime/cuda/stopwatch.h"

namespace trireme::runtime::cuda {
namespace {

constexpr std::size_t kRotation = std::size_t{256}
                                  << 20;  // operands rotate over more than the L2 cache
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kOverlapLargest = 512 * kMiB;

std::string version_text(int version, int major_scale) {
  return std::to_string(version / major_scale) + "." + std::to_string(version % major_scale / 10);
}

int highest_priority() {
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "stream priorities");
  return highest;
}

// A device full of random bf16, and everything the benchmarks share.
class Bench {
 public:
  Bench(int device, const MicrobenchSettings& settings)
      : settings_(settings),
        stream_(0),
        other_(highest_priority()),  // as the runtime gives communication
        workspace_(MatmulLibrary::kWorkspaceBytes, "matrix workspace"),
        attention_(matmuls_) {
    check(cudaSetDevice(device), "GPU");
  }

  [[nodiscard]] bool quick() const { return settings_.quick; }
  void progress(double share, const std::string& what) const {
    if (settings_.progress) {
      settings_.progress(share, what);
    }
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_.raw(); }
  [[nodiscard]] cudaStream_t other_stream() const { return other_.raw(); }
  [[nodiscard]] void* workspace() const { return workspace_.data(); }
  MatmulLibrary& matmuls() { return matmuls_; }
  AttentionLibrary& attention() { return attention_; }
  [[nodiscard]] StopwatchSettings watch() const {
    return {.samples = quick() ? 5 : 9, .sample_seconds = quick() ? 3e-3 : 8e-3};
  }
  DeviceBytes random(std::size_t bytes) {
    DeviceBytes memory(bytes, "benchmark operands");
    fill_random(stream(), reinterpret_cast<Bf16*>(memory.data()),
                static_cast<std::int64_t>(bytes / 2), ++seed_);
    return memory;
  }

 private:
  MicrobenchSettings settings_;
  Stream stream_, other_;
  DeviceBytes workspace_;
  MatmulLibrary matmuls_;
  AttentionLibrary attention_;
  std::uint64_t seed_ = 0;
};

MatmulCall call_of(const MatmulSample& sample) {
  return {.m = sample.m,
          .n = sample.n,
          .k = sample.k,
          .transpose_a = sample.layout == MatmulLayout::kWeightGradient,
          .transpose_b = sample.layout == MatmulLayout::kForward,
          .output_fp32 = sample.layout == MatmulLayout::kWeightGradient};
}

Timing time_matmul(Bench& bench, const MatmulSample& sample) {
  const auto bytes = [](std::int64_t elements, std::size_t width) {
    return (static_cast<std::size_t>(elements) * width + 255) / 256 * 256;
  };
  const MatmulCall call = call_of(sample);
  const std::size_t a = bytes(sample.m * sample.k, 2);
  const std::size_t b = bytes(sample.n * sample.k, 2);
  const std::size_t c = bytes(sample.m * sample.n, call.output_fp32 ? 4 : 2);
  const int sets = static_cast<int>(std::clamp<std::size_t>(kRotation / (a + b + c), 1, 16));
  const DeviceBytes operands = bench.random((a + b) * static_cast<std::size_t>(sets));
  const DeviceBytes results(c * static_cast<std::size_t>(sets), "benchmark results");
  return time_on_stream(bench.stream(), bench.watch(), [&](int run) {
    const auto set = static_cast<std::size_t>(run % sets);
    std::byte* first = operands.data() + set * (a + b);
    bench.matmuls().run(call, first, first + a, results.data() + set * c, bench.workspace(),
                        bench.stream());
  });
}

void measure_matmuls(Bench& bench, Microbenchmarks& found) {
  // Tokens, and the widths of weights from small models to large ones under tensor parallelism.
  const std::vector<std::int64_t> tokens =
      bench.quick() ? std::vector<std::int64_t>{2048, 8192}
                    : std::vector<std::int64_t>{1024, 2048, 4096, 8192, 16384};
  const std::vector<std::int64_t> widths =
      bench.quick() ? std::vector<std::int64_t>{1024, 4096, 14336}
                    : std::vector<std::int64_t>{512, 1024, 2048, 4096, 8192, 14336, 28672};
  double done = 0;
  const auto total = static_cast<double>(tokens.size() * widths.size() * widths.size());
  for (const std::int64_t m : tokens) {
    for (const std::int64_t n : widths) {
      for (const std::int64_t k : widths) {
        bench.progress(0.5 * done++ / total, "matrix products");
        if (n * k > std::int64_t{14336} * 8192) {
          continue;
        }
        const std::array<MatmulSample, 3> passes = {
            MatmulSample{m, n, k, MatmulLayout::kForward, {}},
            MatmulSample{m, k, n, MatmulLayout::kInputGradient, {}},
            MatmulSample{n, k, m, MatmulLayout::kWeightGradient, {}}};
        for (MatmulSample sample : passes) {
          sample.timing = time_matmul(bench, sample);
          found.matmuls.push_back(sample);
        }
      }
    }
  }
}

void measure_attention(Bench& bench, Microbenchmarks& found) {
  const std::vector<std::int64_t> sequences =
      bench.quick() ? std::vector<std::int64_t>{4096}
                    : std::vector<std::int64_t>{1024, 2048, 4096, 8192, 16384};
  for (const std::int64_t sequence : sequences) {
    for (const auto& [heads, kv_heads, size] :
         {std::array<std::int64_t, 3>{32, 8, 64}, std::array<std::int64_t, 3>{32, 8, 128},
          std::array<std::int64_t, 3>{8, 8, 128}}) {
      bench.progress(0.5 + 0.1 * static_cast<double>(sequence) / 16384.0, "attention");
      AttentionSample sample{
          std::max<std::int64_t>(1, 4096 / sequence), heads, kv_heads, sequence, size, {}, {}, {}};
      const AttentionCall call{sample.batch, sequence, heads, kv_heads, size, 0};
      sample.kernel = bench.attention().path(call);
      const auto rows = static_cast<std::size_t>(sample.batch * sequence);
      const auto width = static_cast<std::size_t>((heads + 2 * kv_heads) * size);
      const std::size_t out = rows * static_cast<std::size_t>(heads * size);
      const DeviceBytes qkv = bench.random(rows * width * 2);
      const DeviceBytes dy = bench.random(out * 2);
      const DeviceBytes y(out * 2, "attention output");
      const DeviceBytes lse(rows * static_cast<std::size_t>(heads) * 4, "attention statistics");
      const DeviceBytes dqkv(rows * width * 2, "attention gradient");
      const auto as_bf16 = [](const DeviceBytes& memory) {
        return reinterpret_cast<Bf16*>(memory.data());
      };
      auto* statistics = reinterpret_cast<float*>(lse.data());
      sample.forward = time_on_stream(bench.stream(), bench.watch(), [&](int) {
        bench.attention().forward(call, as_bf16(qkv), as_bf16(y), statistics, bench.workspace(),
                                  bench.stream());
      });
      sample.backward = time_on_stream(bench.stream(), bench.watch(), [&](int) {
        bench.attention().backward(call, as_bf16(dy), as_bf16(qkv), as_bf16(y), statistics,
                                   as_bf16(dqkv), bench.workspace(), bench.stream());
      });
      found.attention.push_back(sample);
    }
  }
}

// y += x over bf16: two reads and a write of each element.
void measure_passes(Bench& bench, Microbenchmarks& found) {
  bench.progress(0.62, "memory-bound kernels");
  for (std::int64_t bytes = kMiB / 16; bytes <= 512 * kMiB; bytes *= bench.quick() ? 16 : 4) {
    const int sets =
        static_cast<int>(std::clamp<std::int64_t>(std::int64_t{kRotation} / (2 * bytes), 1, 64));
    const auto stride = static_cast<std::size_t>(2 * bytes);
    const DeviceBytes memory = bench.random(stride * static_cast<std::size_t>(sets));
    const Timing timing = time_on_stream(bench.stream(), bench.watch(), [&](int run) {
      auto* y =
          reinterpret_cast<Bf16*>(memory.data() + stride * static_cast<std::size_t>(run % sets));
      add(bench.stream(), y, static_cast<const Bf16*>(y + bytes / 2), bytes / 2);
    });
    found.passes.push_back({Bytes(3 * bytes), timing});
  }
}

void measure_copies(Bench& bench, Microbenchmarks& found) {
  bench.progress(0.66, "copies");
  const auto bytes = static_cast<std::size_t>(256 * kMiB);
  const DeviceBytes first = bench.random(bytes);
  const DeviceBytes second(bytes, "copy");
  void* host = nullptr;
  check(cudaMallocHost(&host, bytes), "pinned memory");
  std::memset(host, 1, bytes);
  const auto add_sample = [&](const char* direction, void* to, const void* from) {
    const Timing timing = time_on_stream(bench.stream(), bench.watch(), [&](int) {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, bench.stream()), "copy");
    });
    found.copies.push_back({direction, Bytes(static_cast<std::int64_t>(bytes)), timing});
  };
  add_sample("host_to_device", first.data(), host);
  add_sample("device_to_host", host, first.data());
  add_sample("device_to_device", second.data(), first.data());
  check(cudaFreeHost(host), "pinned memory");
}

// Host time to issue a kernel: many small ones, timed on the host before the device has run them.
void measure_launch(Bench& bench, Microbenchmarks& found) {
  const DeviceBytes memory = bench.random(4096);
  auto* y = reinterpret_cast<Bf16*>(memory.data());
  std::vector<double> samples;
  for (int i = 0; i < 9; ++i) {
    check(cudaStreamSynchronize(bench.stream()), "launch");
    constexpr int kLaunches = 200;
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < kLaunches; ++k) {
      add(bench.stream(), y, static_cast<const Bf16*>(y + 1024), 1024);
    }
    samples.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
        kLaunches);
  }
  found.launch = summarise(samples);
}

// ---- collectives

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

void measure_collectives(Bench& bench, Coordinator& coordinator, Seconds timeout,
                         Microbenchmarks& found) {
  const auto all = static_cast<int>(coordinator.ranks());
  const auto rank = static_cast<int>(index_of(coordinator.rank()));
  for (int ranks = 2; ranks <= all; ranks *= 2) {
    ncclUniqueId id{};
    if (rank == 0) {
      check(ncclGetUniqueId(&id), "NCCL unique id");
    }
    std::string blob(reinterpret_cast<const char*>(&id), sizeof(id));
    blob = coordinator.broadcast(blob);
    std::memcpy(&id, blob.data(), sizeof(id));
    if (rank < ranks) {
      ncclComm_t communicator =
          make_communicator(id, CommunicatorUse::kCollectives, ranks, rank, timeout);
      const GroupBench group{bench, coordinator, communicator, ranks, rank};
      measure_group(group, found);
      if (ranks == all) {
        measure_overlap(group, found);
      }
      ncclCommAbort(communicator);
    }
    coordinator.barrier();
  }
}

}  // namespace

MachineFingerprint fingerprint(int device, std::int64_t gpus) {
  MachineFingerprint machine;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "GPU");
  int driver = 0;
  int runtime = 0;
  int nccl = 0;
  int clock = 0;
  int memory_clock = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  check(ncclGetVersion(&nccl), "NCCL version");
  cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, device);
  cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, device);
  machine.gpu = static_cast<const char*>(properties.name);
  machine.driver = version_text(driver, 1000);
  machine.cuda = version_text(runtime, 1000);
  machine.nccl = std::to_string(nccl / 10000) + "." + std::to_string(nccl / 100 % 100) + "." +
                 std::to_string(nccl % 100);
  machine.cudnn = std::to_string(cudnnGetVersion());
  machine.gpus = gpus;
  machine.multiprocessors = properties.multiProcessorCount;
  machine.clock_mhz = clock / 1000.0;
  machine.memory_clock_mhz = memory_clock / 1000.0;
  machine.memory = Bytes(static_cast<std::int64_t>(properties.totalGlobalMem));
  return machine;
}

Microbenchmarks measure(Coordinator& coordinator, int device, const MicrobenchSettings& settings,
                        Seconds timeout) {
  check(cudaSetDevice(device), "GPU");
  Bench bench(device, settings);
  Microbenchmarks found;
  found.machine = fingerprint(device, coordinator.ranks());
  measure_matmuls(bench, found);
  measure_attention(bench, found);
  measure_passes(bench, found);
  measure_copies(bench, found);
  measure_launch(bench, found);
  coordinator.barrier();
  measure_collectives(bench, coordinator, timeout, found);
  bench.progress(1.0, "done");
  return found;
}

}  // namespace trireme::runtime::cuda
