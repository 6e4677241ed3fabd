// Max-min fairness, case by case, with the arithmetic beside each.
#include "sim/link_sharing.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme::sim {
namespace {

struct System {
  LinkSharing sharing;
  std::vector<LinkIndex> links;
  std::vector<FlowIndex> flows;

  explicit System(const std::vector<double>& capacities) {
    for (const double capacity : capacities) {
      links.push_back(sharing.add_link(capacity));
    }
  }
  void flow(const std::vector<int>& over, double rate_max = kUnlimitedRate) {
    std::vector<LinkUse> uses;
    uses.reserve(over.size());
    for (const int link : over) {
      uses.push_back({links[static_cast<std::size_t>(link)], 1.0});
    }
    flows.push_back(sharing.add_flow(uses, rate_max));
  }
  void weighted(const std::vector<LinkUse>& uses) { flows.push_back(sharing.add_flow(uses)); }
  void leave(std::size_t at) {
    sharing.remove_flow(flows[at]);
    flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void expect_rates(const std::vector<double>& rates) {
    sharing.solve();
    ASSERT_EQ(rates.size(), flows.size());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(sharing.rate(flows[i]), rates[i], 1e-9 * (1 + rates[i])) << "flow " << i;
    }
  }
};

TEST(LinkSharing, OneFlowTakesItsNarrowestLink) {
  System system({100, 40, 60});
  system.flow({0, 1, 2});
  system.expect_rates({40});  // min(100, 40, 60)
}

TEST(LinkSharing, EqualFlowsShareALinkEqually) {
  System system({90});
  system.flow({0});
  system.flow({0});
  system.flow({0});
  system.expect_rates({30, 30, 30});  // 90 / 3
}

TEST(LinkSharing, WhatOneFlowCannotTakeGoesToTheOthers) {
  System system({90});
  system.flow({0}, 10);
  system.flow({0});
  system.flow({0});
  system.expect_rates({10, 40, 40});  // (90 - 10) / 2
}

TEST(LinkSharing, OwnLimitsAboveTheFairShareDoNotMatter) {
  System system({90});
  system.flow({0}, 50);
  system.flow({0}, 45.5);
  system.expect_rates({45, 45});  // the fair share 90 / 2 is below both limits
}

TEST(LinkSharing, AFlowWithoutLinksRunsAtItsOwnLimit) {
  System system({1});
  system.flow({}, 7);
  system.expect_rates({7});
}

TEST(LinkSharing, ParkingLot) {
  // A long flow over three links, one short flow on each: every link is shared by two.
  System system({10, 10, 10});
  system.flow({0, 1, 2});
  system.flow({0});
  system.flow({1});
  system.flow({2});
  system.expect_rates({5, 5, 5, 5});  // 10 / 2 on each
}

TEST(LinkSharing, ParkingLotWithANarrowMiddle) {
  // The middle fills first: 4 / 2 = 2 for the long flow and the middle one; then 10 - 2 = 8 is left
  // at the ends.
  System system({10, 4, 10});
  system.flow({0, 1, 2});
  system.flow({0});
  system.flow({1});
  system.flow({2});
  system.expect_rates({2, 8, 2, 8});
}

TEST(LinkSharing, BottlenecksInThreeRounds) {
  // Link 0 (6): a, b, c: 2 each. Link 1 (12): c, d, e: (12 - 2) / 2 = 5. Link 2 (20): e, f: 20 - 5
  // = 15.
  System system({6, 12, 20});
  system.flow({0});
  system.flow({0});
  system.flow({0, 1});
  system.flow({1});
  system.flow({1, 2});
  system.flow({2});
  system.expect_rates({2, 2, 2, 5, 5, 15});
}

TEST(LinkSharing, ALinkThatNeverFills) {
  // Links of 1; a over 0, 1; b over 0; c over 1, 2; d over 2, 3; e over 2; f over 3. Link 2 has c,
  // d, e: 1/3 each. Link 0: a, b: 1/2. Link 1: a 1/2 + c 1/3 < 1 never fills. Link 3: f = 1 - 1/3 =
  // 2/3.
  System system({1, 1, 1, 1});
  system.flow({0, 1});
  system.flow({0});
  system.flow({1, 2});
  system.flow({2, 3});
  system.flow({2});
  system.flow({3});
  system.expect_rates({0.5, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3, 2.0 / 3});
}

TEST(LinkSharing, UsesWeighTheLink) {
  // a takes 3 of the link for each unit of rate, b takes 1: both at level r with 3 r + r = 12, r
  // = 3.
  System system({12});
  system.weighted({{system.links[0], 3.0}});
  system.weighted({{system.links[0], 1.0}});
  system.expect_rates({3, 3});
}

TEST(LinkSharing, UsesDifferFromLinkToLink) {
  // a: 2 of link 0 and 0.5 of link 1; b on link 0, c on link 1. Link 0 (9): 2 r + r = 9, r = 3.
  // Link 1 (10): c = 10 - 1.5.
  System system({9, 10});
  system.weighted({{system.links[0], 2.0}, {system.links[1], 0.5}});
  system.weighted({{system.links[0], 1.0}});
  system.weighted({{system.links[1], 1.0}});
  system.expect_rates({3, 3, 8.5});
}

TEST(LinkSharing, AnArrivalTakesFromWhoHasMore) {
  // b over links 0 (10) and 1 (2) is held at 2, so a has 8. c comes to link 0: b keeps 2, a and c
  // get 8 / 2 = 4.
  System system({10, 2});
  system.flow({0});
  system.flow({0, 1});
  system.expect_rates({8, 2});
  system.flow({0});
  system.expect_rates({4, 2, 4});
}

TEST(LinkSharing, ADepartureReachesFlowsOnOtherLinks) {
  // Link 0 (4): a, b: 2 each. Link 1 (10): b, c: c = 8. When a leaves, b gets all of link 0, 4, and
  // c = 10 - 4 = 6.
  System system({4, 10});
  system.flow({0});
  system.flow({0, 1});
  system.flow({1});
  system.expect_rates({2, 2, 8});
  system.leave(0);
  system.expect_rates({4, 6});
}

TEST(LinkSharing, ADepartureMovesTheBottleneck) {
  // Link 0 (6): a, b, c: 2 each; link 1 (5): c, d: d = 3. a and b leave: now link 1 fills first, c
  // = d = 2.5.
  System system({6, 5});
  system.flow({0});
  system.flow({0});
  system.flow({0, 1});
  system.flow({1});
  system.expect_rates({2, 2, 2, 3});
  system.leave(0);
  system.leave(0);
  system.expect_rates({2.5, 2.5});
}

TEST(LinkSharing, CapacityFallsAndRises) {
  // 10 shared by two is 5 each; degraded to 4 it is 2 each, and the third flow, on link 1 (10),
  // gets 10 - 2 = 8.
  System system({10, 10});
  system.flow({0});
  system.flow({0, 1});
  system.flow({1});
  system.expect_rates({5, 5, 5});
  system.sharing.set_capacity(system.links[0], 4);
  system.expect_rates({2, 2, 8});
  system.sharing.set_capacity(system.links[0], 10);
  system.expect_rates({5, 5, 5});
}

TEST(LinkSharing, ADeadLinkStopsItsFlowsOnly) {
  System system({0, 10});
  system.flow({0, 1});
  system.flow({1});
  system.expect_rates({0, 10});  // nothing through capacity 0; the other has link 1 to itself
}

TEST(LinkSharing, IncastAndItsVictim) {
  // Four senders (links 0..3, 10 each) into one receiver (link 4, 10): 2.5 each. Sender 0 also
  // sends to a free receiver (link 5): 10 - 2.5 = 7.5.
  System system({10, 10, 10, 10, 10, 10});
  for (int sender = 0; sender < 4; ++sender) {
    system.flow({sender, 4});
  }
  system.flow({0, 5});
  system.expect_rates({2.5, 2.5, 2.5, 2.5, 7.5});
}

TEST(LinkSharing, OversubscribedSpine) {
  // Eight hosts of 10 each behind one uplink of 20 (4:1): 2.5 each; a ninth flow stays below the
  // leaf: 10.
  std::vector<double> capacities(10, 10.0);
  capacities[8] = 20;
  System system(capacities);
  for (int host = 0; host < 8; ++host) {
    system.flow({host, 8});
  }
  system.flow({9});
  system.expect_rates({2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 10});
}

TEST(LinkSharing, LeavesUnconnectedFlowsAlone) {
  // Two separate links with 50 flows each: a change on one solves the flows of that one only.
  System system({100, 100});
  for (int i = 0; i < 50; ++i) {
    system.flow({0});
    system.flow({1});
  }
  system.sharing.solve();
  const std::uint64_t before = system.sharing.solved_flows();
  system.flow({0});
  const auto changed = system.sharing.solve();
  EXPECT_EQ(changed.size(), 51U);  // the 50 on link 0 and the new one, now 100 / 51 each
  EXPECT_LE(system.sharing.solved_flows() - before, 102U);
  EXPECT_NEAR(system.sharing.rate(system.flows[0]), 100.0 / 51, 1e-9);
  EXPECT_EQ(system.sharing.rate(system.flows[1]), 2.0);
}

}  // namespace
}  // namespace trireme::sim
