// Attention, memory-bound kernels, copies and the launch of kernels.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "runtime/cuda/bench.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_objects.h"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {

namespace {

// Shapes of a training rank: grouped heads, plain heads, long sequences as context parallelism has
// them (rates still rise from 16k on: steps of 64k and 131k were 5 to 10 % faster than said), and
// the few heads of one sequence that tensor parallelism leaves, which cannot fill the card.
std::vector<AttentionCall> attention_calls(bool quick) {
  std::vector<AttentionCall> calls;
  for (const std::int64_t sequence :
       quick ? std::vector<std::int64_t>{4096}
             : std::vector<std::int64_t>{1024, 2048, 4096, 8192, 16384, 65536}) {
    const std::int64_t batch = std::max<std::int64_t>(1, 4096 / sequence);
    calls.push_back({batch, sequence, 32, 8, 64, 0});
    calls.push_back({batch, sequence, 32, 8, 128, 0});
    calls.push_back({batch, sequence, 8, 8, 128, 0});
  }
  for (const std::int64_t sequence :
       quick ? std::vector<std::int64_t>{2048} : std::vector<std::int64_t>{2048, 4096}) {
    calls.push_back({1, sequence, 4, 4, 128, 0});
    if (sequence < 4096) {  // 8 heads of 4096 are above
      calls.push_back({1, sequence, 8, 8, 128, 0});
    }
    calls.push_back({1, sequence, 16, 16, 64, 0});
  }
  return calls;
}

AttentionSample measure_call(Bench& bench, const AttentionCall& call) {
  AttentionSample sample{call.batch, call.heads, call.kv_heads, call.sequence, call.head_size, {},
                         {},         {}};
  sample.kernel = bench.attention().path(call);
  const auto rows = static_cast<std::size_t>(call.batch * call.sequence);
  const auto width = static_cast<std::size_t>((call.heads + 2 * call.kv_heads) * call.head_size);
  const std::size_t out = rows * static_cast<std::size_t>(call.heads * call.head_size);
  const DeviceBytes qkv = bench.random(rows * width * 2);
  const DeviceBytes dy = bench.random(out * 2);
  const DeviceBytes y(out * 2, "attention output");
  const DeviceBytes lse(rows * static_cast<std::size_t>(call.heads) * 4, "attention statistics");
  const DeviceBytes dqkv(rows * width * 2, "attention gradient");
  const auto as_bf16 = [](const DeviceBytes& memory) {
    return reinterpret_cast<Bf16*>(memory.data());
  };
  auto* statistics = reinterpret_cast<float*>(lse.data());
  // Causal: half of two products of 2 b h s s d.
  const double flop = 2.0 * static_cast<double>(call.batch * call.heads * call.head_size) *
                      static_cast<double>(call.sequence * call.sequence);
  sample.forward = bench.time_amid_products(flop, [&](int) {
    bench.attention().forward(call, as_bf16(qkv), as_bf16(y), statistics, bench.workspace(),
                              bench.stream());
  });
  sample.backward = bench.time_amid_products(2.5 * flop, [&](int) {
    bench.attention().backward(call, as_bf16(dy), as_bf16(qkv), as_bf16(y), statistics,
                               as_bf16(dqkv), bench.workspace(), bench.stream());
  });
  return sample;
}

}  // namespace

void measure_attention(Bench& bench, Microbenchmarks& found) {
  const std::vector<AttentionCall> calls = attention_calls(bench.quick());
  for (const AttentionCall& call : calls) {
    const double done = static_cast<double>(found.attention.size());
    bench.progress(0.6 + 0.05 * done / static_cast<double>(calls.size()), "attention");
    found.attention.push_back(measure_call(bench, call));
  }
}

// y += x over bf16: two reads and a write of each element.
void measure_passes(Bench& bench, Microbenchmarks& found) {
  bench.progress(0.66, "memory-bound kernels");
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

void measure_copies(Bench& bench, Coordinator& coordinator, Microbenchmarks& found) {
  bench.progress(0.68, "copies");
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
  coordinator.barrier();
  add_sample("host_to_device", first.data(), host);
  add_sample("device_to_host", host, first.data());
  add_sample("device_to_device", second.data(), first.data());
  const auto add_both = [&](const char* direction) {
    const Timing both = time_on_stream(bench.stream(), bench.watch(), [&](int) {
      const Event begun(static_cast<unsigned int>(cudaEventDisableTiming));
      const Event gone(static_cast<unsigned int>(cudaEventDisableTiming));
      check(cudaEventRecord(begun.raw(), bench.stream()), "copy");
      check(cudaStreamWaitEvent(bench.other_stream(), begun.raw()), "copy");
      check(cudaMemcpyAsync(first.data(), host, bytes / 2, cudaMemcpyDefault, bench.stream()),
            "copy");
      check(cudaMemcpyAsync(static_cast<std::byte*>(host) + bytes / 2, second.data(), bytes / 2,
                            cudaMemcpyDefault, bench.other_stream()),
            "copy");
      check(cudaEventRecord(gone.raw(), bench.other_stream()), "copy");
      check(cudaStreamWaitEvent(bench.stream(), gone.raw()), "copy");
    });
    found.copies.push_back({direction, Bytes(static_cast<std::int64_t>(bytes / 2)), both});
  };
  coordinator.barrier();
  add_both("both_ways");
  coordinator.barrier();
  if (index_of(coordinator.rank()) == 0) {
    add_both("both_ways_alone");
  }
  coordinator.barrier();
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

}  // namespace trireme::runtime::cuda
