#include "sim/flow_set.h"

#include <gtest/gtest.h>

namespace trireme::sim {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000'000;

TEST(FlowSet, ALoneMessageTakesItsBytesOverTheLink) {
  FlowSet flows;
  const LinkIndex link = flows.add_link(BytesPerSecond(50e9));
  const LinkUse use{link, 1.0};
  flows.start({&use, 1}, 50e6, 7, SimTime{});
  flows.share(SimTime{});
  ASSERT_EQ(flows.next_finish().picoseconds, kMillisecond);  // 50e6 B / 50e9 B/s
  EXPECT_EQ(flows.finish({kMillisecond}), 7U);
  EXPECT_EQ(flows.next_finish(), kNever);
  EXPECT_EQ(flows.carried_bytes(link), 50e6);
}

TEST(FlowSet, ALateSecondMessageSlowsTheFirstFromThenOn) {
  // 100 MB at 50 GB/s alone: 2 ms. At 1 ms a second one of 100 MB comes: 25 GB/s each. The first
  // has 50 MB left: 2 ms more, done at 3 ms. The second then has 50 MB left at full rate: 1 ms,
  // done at 4 ms.
  FlowSet flows;
  const LinkUse use{flows.add_link(BytesPerSecond(50e9)), 1.0};
  flows.start({&use, 1}, 100e6, 1, SimTime{});
  flows.share(SimTime{});
  flows.start({&use, 1}, 100e6, 2, {kMillisecond});
  flows.share({kMillisecond});
  ASSERT_EQ(flows.next_finish().picoseconds, 3 * kMillisecond);
  EXPECT_EQ(flows.finish({3 * kMillisecond}), 1U);
  flows.share({3 * kMillisecond});
  ASSERT_EQ(flows.next_finish().picoseconds, 4 * kMillisecond);
  EXPECT_EQ(flows.finish({4 * kMillisecond}), 2U);
}

TEST(FlowSet, FinishTimesAreRoundedUp) {
  FlowSet flows;
  const LinkUse use{flows.add_link(BytesPerSecond(3e12)), 1.0};
  flows.start({&use, 1}, 1, 1, SimTime{});
  flows.share(SimTime{});
  EXPECT_EQ(flows.next_finish().picoseconds, 1);  // a third of a picosecond
}

TEST(FlowSet, AMessageOverADeadLinkNeverEnds) {
  FlowSet flows;
  const LinkUse use{flows.add_link(BytesPerSecond(0)), 1.0};
  flows.start({&use, 1}, 1, 1, SimTime{});
  flows.share(SimTime{});
  EXPECT_EQ(flows.next_finish(), kNever);
  flows.set_capacity(use.link, BytesPerSecond(1e12));  // repaired after 5 ps
  flows.share({5});
  EXPECT_EQ(flows.next_finish().picoseconds, 6);
}

}  // namespace
}  // namespace trireme::sim
