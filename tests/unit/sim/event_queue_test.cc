#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/finish_heap.h"

namespace trireme::sim {
namespace {

TEST(EventQueue, TakesEventsInOrderOfTimeAndThenOfScheduling) {
  EventQueue queue;
  const std::vector<std::int64_t> times = {7, 3, 7, 1, 3, 7, 0, 5, 3, 1, 7, 2};
  for (std::uint32_t i = 0; i < times.size(); ++i) {
    queue.schedule({times[i]}, 0, i);
  }
  Event last = queue.pop();
  EXPECT_EQ(last.time.picoseconds, 0);
  while (!queue.empty()) {
    const Event event = queue.pop();
    EXPECT_EQ(times[event.index], event.time.picoseconds);
    EXPECT_TRUE(last.time < event.time || (last.time == event.time && last.index < event.index));
    last = event;
  }
}

TEST(FinishHeap, FollowsTimesThatMove) {
  // Against a plain table: set, move both ways, erase, over a fixed pseudo-random walk.
  constexpr std::uint32_t kCount = 60;
  constexpr std::int64_t kAbsent = -1;
  std::vector<std::int64_t> table(kCount, kAbsent);
  FinishHeap heap;
  std::uint64_t state = 12345;
  for (int step = 0; step < 5000; ++step) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto index = static_cast<std::uint32_t>((state >> 33) % kCount);
    const auto time = static_cast<std::int64_t>((state >> 20) % 1000);
    if (step % 3 == 2) {
      table[index] = kAbsent;
      heap.erase(index);
    } else {
      table[index] = time;
      heap.set(index, {time});
    }
    std::int64_t least = kAbsent;
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      if (table[i] != kAbsent && (least == kAbsent || table[i] < least)) {
        least = table[i];
        at = i;
      }
    }
    ASSERT_EQ(heap.empty(), least == kAbsent);
    if (!heap.empty()) {
      ASSERT_EQ(heap.next_time().picoseconds, least);
      ASSERT_EQ(heap.next_index(), at);
    }
  }
}

}  // namespace
}  // namespace trireme::sim
