#include "sim/ring_flows.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme::sim {
namespace {

constexpr double kLinkRate = 50e9;  // 400 Gbit/s

double seconds(SimTime time) {
  return static_cast<double>(time.picoseconds) * 1e-12;
}

// An all-reduce ring whose rank r sends over its own link.
Ring direct_ring(FlowSet& flows, std::uint32_t ranks, double bytes) {
  Ring ring;
  ring.chunk_bytes = bytes / ranks;
  ring.steps = 2 * (ranks - 1);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ring.routes.push_back({{flows.add_link(BytesPerSecond(kLinkRate)), 1.0}});
  }
  return ring;
}

TEST(RingFlows, AllReduceTakesTheTextbookTime) {
  // 2 (n - 1) / n * size / bandwidth + 2 (n - 1) * latency, n = 8, 80 MB: 1.75 * 1.6 ms + 14 * 2
  // us.
  FlowSet flows;
  Ring ring = direct_ring(flows, 8, 80e6);
  ring.step_latency = Seconds(2e-6);
  const RingOutcome outcome = simulate_rings(flows, std::span(&ring, 1));
  EXPECT_EQ(outcome.flows, 8U * 14U);
  EXPECT_NEAR(seconds(outcome.end), 1.75 * 1.6e-3 + 14 * 2e-6, 1e-9);
}

TEST(RingFlows, OneLateRankDelaysTheRingByItsDelay) {
  FlowSet flows;
  Ring ring = direct_ring(flows, 4, 4e6);
  const double alone = 6 * 1e6 / kLinkRate;
  ring.starts = {{0}, {0}, {1'000'000'000}, {0}};  // rank 2 comes 1 ms late
  const RingOutcome outcome = simulate_rings(flows, std::span(&ring, 1));
  EXPECT_NEAR(seconds(outcome.end), 1e-3 + alone, 1e-9);
}

TEST(RingFlows, TwoRingsOverOneSharedLinkFinishAtTheFairTime) {
  // Two rings of 8 share the cable between their ranks 3 and 4. Each gets half of it, and the
  // slowest hop sets the pace of a ring: 14 steps of 10 MB at 25 GB/s.
  FlowSet flows;
  std::vector<Ring> rings = {direct_ring(flows, 8, 80e6), direct_ring(flows, 8, 80e6)};
  const LinkIndex shared = flows.add_link(BytesPerSecond(kLinkRate));
  rings[0].routes[3].push_back({shared, 1.0});
  rings[1].routes[3].push_back({shared, 1.0});
  const RingOutcome outcome = simulate_rings(flows, rings);
  const double fair = 14 * 10e6 / 25e9;
  EXPECT_NEAR(seconds(outcome.ends[0]), fair, fair * 1e-3);
  EXPECT_NEAR(seconds(outcome.ends[1]), fair, fair * 1e-3);
}

TEST(RingFlows, UnequalRingsOverOneLinkShareItWhileBothRun) {
  // The second ring is half as large: its 14 steps of 5 MB at 25 GB/s take 2.8 ms. The first has
  // then done 7 of its 14 steps of 10 MB and does the other 7 at the full rate: 2.8 + 7 * 0.2 = 4.2
  // ms.
  FlowSet flows;
  std::vector<Ring> rings = {direct_ring(flows, 8, 80e6), direct_ring(flows, 8, 40e6)};
  const LinkIndex shared = flows.add_link(BytesPerSecond(kLinkRate));
  for (Ring& ring : rings) {
    ring.routes[3].push_back({shared, 1.0});
  }
  const RingOutcome outcome = simulate_rings(flows, rings);
  EXPECT_NEAR(seconds(outcome.ends[1]), 2.8e-3, 2.8e-6);
  EXPECT_NEAR(seconds(outcome.ends[0]), 4.2e-3, 4.2e-6);
}

TEST(RingFlows, ARingThroughOneSwitchTakesWhatItTakesOverDirectLinks) {
  constexpr std::uint32_t kRanks = 16;
  FlowSet direct_flows;
  Ring direct = direct_ring(direct_flows, kRanks, 160e6);
  FlowSet switch_flows;
  std::vector<LinkIndex> up;
  std::vector<LinkIndex> down;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    up.push_back(switch_flows.add_link(BytesPerSecond(kLinkRate)));
    down.push_back(switch_flows.add_link(BytesPerSecond(kLinkRate)));
  }
  Ring switched = direct;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    switched.routes[rank] = {{up[rank], 1.0}, {down[(rank + 1) % kRanks], 1.0}};
  }
  const double over_links = seconds(simulate_rings(direct_flows, std::span(&direct, 1)).end);
  const double through_switch = seconds(simulate_rings(switch_flows, std::span(&switched, 1)).end);
  EXPECT_NEAR(through_switch / over_links, 1.0, 0.01);
}

TEST(RingFlows, AllGatherAcrossSpinesFourToOneSlowsFourTimes) {
  // 16 hosts on 2 leaves, 8 below each; a leaf's uplinks carry a quarter of its hosts' bandwidth
  // (4:1). Eight rings of two hosts: on rails each message crosses one switch at the full rate;
  // across the spine (one host below each leaf) eight messages share 8 / 4 links' worth of uplink:
  // 4 times slower.
  const auto end = [](bool across) {
    FlowSet flows;
    const std::vector<LinkIndex> uplinks = {flows.add_link(BytesPerSecond(8 * kLinkRate / 4)),
                                            flows.add_link(BytesPerSecond(8 * kLinkRate / 4))};
    std::vector<Ring> rings;
    for (int pair = 0; pair < 8; ++pair) {
      Ring ring = direct_ring(flows, 2, 100e6);
      ring.steps = 1;  // all-gather: n - 1
      for (std::size_t rank = 0; across && rank < 2; ++rank) {
        ring.routes[rank].push_back({uplinks[rank], 1.0});
      }
      rings.push_back(ring);
    }
    return seconds(simulate_rings(flows, rings).end);
  };
  EXPECT_NEAR(end(true) / end(false), 4.0, 0.004);
}

}  // namespace
}  // namespace trireme::sim
