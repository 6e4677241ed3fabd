#include "sim/flow_set.h"

#include <algorithm>

#include "core/check.h"

namespace trireme::sim {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;

// Rounded up; kNever when it would not end in the clock's range (a link without capacity).
SimTime finish_time(SimTime now, double left, double rate) {
  const double picoseconds = left * kPicosecondsPerSecond / rate;
  if (!(picoseconds < static_cast<double>(kNever.picoseconds) / 2)) {
    return kNever;
  }
  return now + to_sim_duration(Seconds(left / rate));
}

}  // namespace

FlowIndex FlowSet::start(std::span<const LinkUse> uses, double size, std::uint32_t tag, SimTime now,
                         double rate_max, SimDuration alone) {
  TRIREME_CHECK(size > 0);
  const FlowIndex flow = sharing_.add_flow(uses, rate_max);
  const auto at = static_cast<std::uint32_t>(flow);
  if (at >= flows_.size()) {
    flows_.resize(at + 1);
  }
  flows_[at] = Moving{size, size, 0, now, alone, rate_max, tag};
  return flow;
}

std::uint32_t FlowSet::finish(SimTime now) {
  TRIREME_CHECK(!heap_.empty());
  TRIREME_CHECK(heap_.next_time() == now);
  const std::uint32_t at = heap_.next_index();
  heap_.erase(at);
  if (carried_.size() < sharing_.link_count()) {
    carried_.resize(sharing_.link_count());
  }
  for (const LinkUse& use : sharing_.uses(FlowIndex{at})) {
    carried_[static_cast<std::uint32_t>(use.link)] += use.use * flows_[at].size;
  }
  sharing_.remove_flow(FlowIndex{at});
  return flows_[at].tag;
}

void FlowSet::share(SimTime now) {
  changed_ = sharing_.solve();
  for (const FlowIndex flow : changed_) {
    const auto at = static_cast<std::uint32_t>(flow);
    Moving& moving = flows_[at];
    if (moving.rate > 0) {
      moving.left = std::max(moving.left - moving.rate * to_seconds(now - moving.since).value, 0.0);
    }
    moving.since = now;
    moving.rate = sharing_.rate(flow);
    const bool alone =
        moving.alone.value > 0 && moving.left == moving.size && moving.rate == moving.rate_max;
    const SimTime done = alone ? now + moving.alone : finish_time(now, moving.left, moving.rate);
    if (done == kNever) {
      heap_.erase(at);
    } else {
      heap_.set(at, done);
    }
  }
}

}  // namespace trireme::sim
