#include "sim/ring_flows.h"

#include <algorithm>

#include "core/check.h"
#include "sim/event_queue.h"

namespace trireme::sim {
namespace {

struct RankState {
  std::uint32_t ring = 0;
  std::uint32_t next = 0;      // the neighbour it sends to
  std::uint32_t sent = 0;      // steps that have left
  std::uint32_t received = 0;  // steps that have arrived
  bool started = false, busy = false;
};

class RingRun {
 public:
  RingRun(FlowSet& flows, std::span<const Ring> rings) : flows_(flows), rings_(rings) {
    outcome_.ends.resize(rings.size());
    for (std::uint32_t ring = 0; ring < rings.size(); ++ring) {
      add(ring);
    }
  }

  RingOutcome run() {
    while (true) {
      const SimTime event = queue_.empty() ? kNever : queue_.next().time;
      const SimTime now = std::min(event, flows_.next_finish());
      if (now == kNever) {
        break;
      }
      while (!queue_.empty() && queue_.next().time == now) {
        begin(queue_.pop(), now);
      }
      while (flows_.next_finish() == now) {
        arrive(flows_.finish(now), now);
      }
      flows_.share(now);
    }
    for (const RankState& rank : ranks_) {
      TRIREME_CHECK(rank.sent == rings_[rank.ring].steps);
    }
    return std::move(outcome_);
  }

 private:
  enum Kind : std::uint32_t { kStart, kSend };

  void add(std::uint32_t ring) {
    const auto first = static_cast<std::uint32_t>(ranks_.size());
    const auto count = static_cast<std::uint32_t>(rings_[ring].routes.size());
    TRIREME_CHECK(rings_[ring].starts.empty() || rings_[ring].starts.size() == count);
    first_rank_.push_back(first);
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      ranks_.push_back({.ring = ring, .next = first + (rank + 1) % count});
      queue_.schedule(rings_[ring].starts.empty() ? SimTime{} : rings_[ring].starts[rank], kStart,
                      first + rank);
    }
  }

  void begin(const Event& event, SimTime now) {
    if (event.kind == kStart) {
      ranks_[event.index].started = true;
      try_send(event.index, now);
    } else {
      send(event.index, now);
    }
  }

  void try_send(std::uint32_t at, SimTime now) {
    RankState& rank = ranks_[at];
    const Ring& ring = rings_[rank.ring];
    if (!rank.started || rank.busy || rank.sent == ring.steps || rank.received < rank.sent) {
      return;
    }
    rank.busy = true;
    if (ring.step_latency.value > 0) {
      queue_.schedule(now + to_sim_duration(ring.step_latency), kSend, at);
    } else {
      send(at, now);
    }
  }

  void send(std::uint32_t at, SimTime now) {
    const Ring& ring = rings_[ranks_[at].ring];
    flows_.start(ring.routes[at - first_rank_[ranks_[at].ring]], ring.chunk_bytes, at, now);
    ++outcome_.flows;
  }

  void arrive(std::uint32_t at, SimTime now) {
    RankState& rank = ranks_[at];
    rank.busy = false;
    ++rank.sent;
    ++ranks_[rank.next].received;
    outcome_.ends[rank.ring] = now;
    outcome_.end = now;
    try_send(at, now);
    try_send(rank.next, now);
  }

  FlowSet& flows_;
  std::span<const Ring> rings_;
  std::vector<RankState> ranks_;
  std::vector<std::uint32_t> first_rank_;
  EventQueue queue_;
  RingOutcome outcome_;
};

}  // namespace

RingOutcome simulate_rings(FlowSet& flows, std::span<const Ring> rings) {
  return RingRun(flows, rings).run();
}

}  // namespace trireme::sim
