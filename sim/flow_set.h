// Messages under way: how much of each is left, how fast it goes, when it will be done. The clock
// is integer picoseconds; a finish time is rounded up once, when the rate becomes known.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/units.h"
#include "sim/finish_heap.h"
#include "sim/link_sharing.h"

namespace trireme::sim {

constexpr SimTime kNever{std::numeric_limits<std::int64_t>::max()};

class FlowSet {
 public:
  LinkIndex add_link(BytesPerSecond capacity) { return sharing_.add_link(capacity.value); }
  // `size` in bytes, > 0 (of the flow's rate; a link carries size * use). `tag` comes back when it
  // finishes.
  // `alone`: what it takes at rate_max, to the picosecond (size / rate_max when 0).
  FlowIndex start(std::span<const LinkUse> uses, double size, std::uint32_t tag, SimTime now,
                  double rate_max = kUnlimitedRate, SimDuration alone = SimDuration(0));
  // When the first flow will be done, as the rates are: kNever when none moves. Call share() after
  // starts and finishes.
  [[nodiscard]] SimTime next_finish() const { return heap_.empty() ? kNever : heap_.next_time(); }
  // Takes the flow that is done first out of its links. Returns its tag. Requires: next_finish() is
  // `now`.
  std::uint32_t finish(SimTime now);
  // Makes the rates fair again after what started and finished at `now`.
  void share(SimTime now);
  void set_capacity(LinkIndex link, BytesPerSecond capacity) {
    sharing_.set_capacity(link, capacity.value);
  }

  // By the flows that are done.
  [[nodiscard]] double carried_bytes(LinkIndex link) const {
    const auto at = static_cast<std::uint32_t>(link);
    return at < carried_.size() ? carried_[at] : 0;
  }
  [[nodiscard]] const LinkSharing& sharing() const { return sharing_; }
  [[nodiscard]] std::uint32_t tag(FlowIndex flow) const {
    return flows_[static_cast<std::uint32_t>(flow)].tag;
  }
  // The flows whose rate the last share() changed.
  [[nodiscard]] std::span<const FlowIndex> changed() const { return changed_; }

 private:
  struct Moving {
    double size = 0, left = 0, rate = 0;
    SimTime since;  // `left` and `rate` hold from here on
    SimDuration alone;
    double rate_max = 0;
    std::uint32_t tag = 0;
  };

  LinkSharing sharing_;
  FinishHeap heap_;
  std::vector<Moving> flows_;    // by FlowIndex
  std::vector<double> carried_;  // by LinkIndex
  std::span<const FlowIndex> changed_;
};

}  // namespace trireme::sim
