// Speed of the simulator's parts, with the machine named: events, messages of ring collectives,
// random flows on a fat tree.
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "sim/event_queue.h"
#include "sim/flow_set.h"
#include "sim/ring_flows.h"

namespace trireme::sim {
namespace {

// xorshift64*: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545F4914F6CDD1DULL >> 11) % bound;
  }

 private:
  std::uint64_t state_;
};

// Of the processor, so that other work on the machine does not count.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC;
  }

 private:
  std::clock_t start_ = std::clock();
};

double peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown processor";
  std::string number;
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
    } else if (line.starts_with("model\t")) {
      number = line.substr(line.find(':') + 2);
    }
  }
  return fmt::format("{}, model {}", model, number);
}

void bench_events() {
  constexpr std::uint32_t kEvents = 20'000'000;
  EventQueue queue;
  Random random(1);
  Stopwatch watch;
  for (std::uint32_t i = 0; i < 4096; ++i) {
    queue.schedule({static_cast<std::int64_t>(random.below(1'000'000))}, 0, i);
  }
  for (std::uint32_t i = 0; i < kEvents; ++i) {
    const Event event = queue.pop();
    queue.schedule(event.time + SimDuration(static_cast<std::int64_t>(random.below(1'000'000))), 0,
                   event.index);
  }
  fmt::print("event queue, 4096 pending: {:.1f} million events/s\n",
             kEvents / watch.seconds() / 1e6);
}

// 1 GiB all-reduce on a ring whose ranks hang on one switch: each message crosses an up and a down
// link.
void bench_ring(std::uint32_t ranks, bool random_starts) {
  FlowSet flows;
  std::vector<LinkIndex> up;
  std::vector<LinkIndex> down;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    up.push_back(flows.add_link(BytesPerSecond(50e9)));
    down.push_back(flows.add_link(BytesPerSecond(50e9)));
  }
  Random random(2);
  Ring ring;
  ring.chunk_bytes = 1073741824.0 / ranks;
  ring.steps = 2 * (ranks - 1);
  ring.step_latency = Seconds(1e-6);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ring.routes.push_back({{up[rank], 1.0}, {down[(rank + 1) % ranks], 1.0}});
    ring.starts.push_back(
        {random_starts ? static_cast<std::int64_t>(random.below(100'000'000)) : 0});
  }
  Stopwatch watch;
  const RingOutcome outcome = simulate_rings(flows, std::span(&ring, 1));
  const double seconds = watch.seconds();
  fmt::print(
      "ring all-reduce 1 GiB, {} ranks, {}: {} flows in {:.3f} s, {:.2f} million flows/s; "
      "simulated {:.3f} ms\n",
      ranks, random_starts ? "starts at random in 100 us" : "starts together", outcome.flows,
      seconds, static_cast<double>(outcome.flows) / seconds / 1e6,
      static_cast<double>(outcome.end.picoseconds) / 1e9);
}

// A fat tree of radix k: k^3/4 hosts, k/2 hosts a leaf, k/2 leaves and k/2 aggregation switches a
// pod, k^2/4 cores.
class FatTree {
 public:
  FatTree(FlowSet& flows, std::uint32_t radix, double bandwidth) : half_(radix / 2), flows_(flows) {
    const std::uint32_t hosts = half_ * half_ * radix;
    for (auto* links : {&host_up_, &host_down_, &leaf_up_, &leaf_down_, &core_up_, &core_down_}) {
      for (std::uint32_t i = 0; i < hosts; ++i) {
        links->push_back(flows_.add_link(BytesPerSecond(bandwidth)));
      }
    }
  }
  [[nodiscard]] std::uint32_t hosts() const { return static_cast<std::uint32_t>(host_up_.size()); }

  // One of the shortest paths, at random (ECMP).
  void route(std::uint32_t from, std::uint32_t to, Random& random,
             std::vector<LinkUse>& uses) const {
    uses.clear();
    uses.push_back({host_up_[from], 1.0});
    const std::uint32_t leaf_from = from / half_;
    const std::uint32_t leaf_to = to / half_;
    if (leaf_from != leaf_to) {
      const auto aggregation = static_cast<std::uint32_t>(random.below(half_));
      uses.push_back({leaf_up_[leaf_from * half_ + aggregation], 1.0});
      const std::uint32_t pod_from = leaf_from / half_;
      const std::uint32_t pod_to = leaf_to / half_;
      if (pod_from != pod_to) {
        const auto core = static_cast<std::uint32_t>(random.below(half_));
        uses.push_back({core_up_[(pod_from * half_ + aggregation) * half_ + core], 1.0});
        uses.push_back({core_down_[(pod_to * half_ + aggregation) * half_ + core], 1.0});
      }
      uses.push_back({leaf_down_[leaf_to * half_ + aggregation], 1.0});
    }
    uses.push_back({host_down_[to], 1.0});
  }

 private:
  std::uint32_t half_;
  FlowSet& flows_;
  std::vector<LinkIndex> host_up_, host_down_, leaf_up_, leaf_down_, core_up_, core_down_;
};

// Every host has `in_flight` flows of 1 MiB to random hosts under way, and starts the next when one
// is done, until it has started `each` of them.
void bench_random_flows(std::uint32_t radix, std::uint32_t in_flight, std::uint32_t each) {
  FlowSet flows;
  const FatTree tree(flows, radix, 12.5e9);
  Random random(3);
  std::vector<std::uint32_t> left(tree.hosts(), each);
  std::vector<LinkUse> uses;
  const auto start = [&](std::uint32_t host, SimTime now) {
    if (left[host] > 0) {
      --left[host];
      const auto other = static_cast<std::uint32_t>(random.below(tree.hosts() - 1));
      tree.route(host, other < host ? other : other + 1, random, uses);
      flows.start(uses, 1048576.0, host, now);
    }
  };
  Stopwatch watch;
  for (std::uint32_t host = 0; host < tree.hosts(); ++host) {
    for (std::uint32_t i = 0; i < in_flight; ++i) {
      start(host, SimTime{});
    }
  }
  flows.share(SimTime{});
  std::uint64_t done = 0;
  std::uint64_t instants = 0;
  while (flows.next_finish() != kNever && watch.seconds() < 30) {
    const SimTime now = flows.next_finish();
    while (flows.next_finish() == now) {
      start(flows.finish(now), now);
      ++done;
    }
    flows.share(now);
    ++instants;
  }
  const double seconds = watch.seconds();
  fmt::print(
      "random flows, fat tree of {} hosts, {} in flight each, {} started each: {} flows in {:.3f} "
      "s, {:.0f} flows/s "
      "({} instants, {:.0f} rates solved an instant)\n",
      tree.hosts(), in_flight, each, done, seconds, static_cast<double>(done) / seconds, instants,
      static_cast<double>(flows.sharing().solved_flows()) / static_cast<double>(instants));
}

}  // namespace
}  // namespace trireme::sim

int main(int argc, char** argv) {
  using namespace trireme::sim;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 1 ? argv[1] : "all";
  fmt::print("machine: {}\n", machine());
  if (what == "all" || what == "events") {
    bench_events();
  }
  if (what == "all" || what == "ring") {
    bench_ring(1024, false);
    bench_ring(1024, true);
    bench_ring(4096, false);
    bench_ring(4096, true);
  }
  if (what == "all" || what == "flows") {
    bench_random_flows(16, 1, 100);
    bench_random_flows(16, 20, 20);
    bench_random_flows(16, 20, 40);
    bench_random_flows(26, 4, 4);
    bench_random_flows(26, 4, 16);
  }
  fmt::print("peak memory: {:.0f} MiB\n", peak_memory_mib());
  return 0;
}
