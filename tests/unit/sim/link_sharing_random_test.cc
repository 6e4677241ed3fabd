// Random systems, changed at random, against the textbook's progressive filling from scratch and
// against the definition of max-min fairness itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/link_sharing.h"

namespace trireme::sim {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

struct PlainFlow {
  FlowIndex index{};
  std::vector<LinkUse> uses;
  double rate_max = kUnlimitedRate;
};

// Raises all rates together, in the plainest way: find what fills first, stop its flows, repeat.
std::vector<double> filled(const std::vector<double>& capacities,
                           const std::vector<PlainFlow>& flows) {
  std::vector<double> rates(flows.size(), -1);
  while (true) {
    std::vector<double> residual = capacities;
    std::vector<double> growing(capacities.size(), 0);
    double level = kUnlimitedRate;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const LinkUse& use : flows[f].uses) {
        const auto link = static_cast<std::size_t>(use.link);
        if (rates[f] < 0) {
          growing[link] += use.use;
        } else {
          residual[link] -= use.use * rates[f];
        }
      }
      if (rates[f] < 0) {
        level = std::min(level, flows[f].rate_max);
      }
    }
    for (std::size_t l = 0; l < capacities.size(); ++l) {
      if (growing[l] > 0) {
        level = std::min(level, std::max(residual[l], 0.0) / growing[l]);
      }
    }
    if (level == kUnlimitedRate) {
      return rates;
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (rates[f] >= 0) {
        continue;
      }
      bool stops = flows[f].rate_max <= level;
      for (const LinkUse& use : flows[f].uses) {
        const auto link = static_cast<std::size_t>(use.link);
        stops = stops || std::max(residual[link], 0.0) / growing[link] <= level * (1 + 1e-12);
      }
      rates[f] = stops ? level : -1;
    }
  }
}

// Every flow is at its own limit or crosses a full link on which none is faster; no link carries
// more than it can.
void expect_fair(const LinkSharing& sharing, const std::vector<double>& capacities,
                 const std::vector<PlainFlow>& flows) {
  std::vector<double> load(capacities.size(), 0);
  std::vector<double> largest(capacities.size(), 0);
  for (const PlainFlow& flow : flows) {
    for (const LinkUse& use : flow.uses) {
      const auto link = static_cast<std::size_t>(use.link);
      load[link] += use.use * sharing.rate(flow.index);
      largest[link] = std::max(largest[link], sharing.rate(flow.index));
    }
  }
  for (std::size_t l = 0; l < capacities.size(); ++l) {
    ASSERT_LE(load[l], capacities[l] * (1 + 1e-9));
  }
  for (const PlainFlow& flow : flows) {
    const double rate = sharing.rate(flow.index);
    bool held = rate >= flow.rate_max;
    for (const LinkUse& use : flow.uses) {
      const auto link = static_cast<std::size_t>(use.link);
      held = held ||
             (load[link] >= capacities[link] * (1 - 1e-8) && rate >= largest[link] * (1 - 1e-8));
    }
    ASSERT_TRUE(held) << "a flow could grow";
  }
}

PlainFlow random_flow(Random& random, std::size_t links, bool weighted) {
  PlainFlow flow;
  for (std::uint32_t l = 0; l < links; ++l) {
    if (random.below(links) < 2) {
      flow.uses.push_back(
          {LinkIndex{l}, weighted ? 0.25 * static_cast<double>(1 + random.below(8)) : 1.0});
    }
  }
  if (flow.uses.empty() || random.below(4) == 0) {
    flow.rate_max = static_cast<double>(1 + random.below(20));
  }
  return flow;
}

void run_random_system(std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  LinkSharing sharing;
  std::vector<double> capacities(2 + random.below(12));
  for (double& capacity : capacities) {
    capacity = static_cast<double>(1 + random.below(40));
    sharing.add_link(capacity);
  }
  const bool weighted = random.below(2) == 0;
  std::vector<PlainFlow> flows;
  for (int change = 0; change < 60; ++change) {
    const std::uint64_t what = random.below(10);
    if (what < 6 || flows.empty()) {
      flows.push_back(random_flow(random, capacities.size(), weighted));
      flows.back().index = sharing.add_flow(flows.back().uses, flows.back().rate_max);
    } else if (what < 9) {
      const std::size_t at = random.below(flows.size());
      sharing.remove_flow(flows[at].index);
      flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      const std::size_t at = random.below(capacities.size());
      capacities[at] = static_cast<double>(random.below(40));
      sharing.set_capacity(LinkIndex{static_cast<std::uint32_t>(at)}, capacities[at]);
    }
    if (random.below(3) != 0) {  // sometimes several changes at once
      sharing.solve();
      const std::vector<double> expected = filled(capacities, flows);
      for (std::size_t f = 0; f < flows.size(); ++f) {
        ASSERT_NEAR(sharing.rate(flows[f].index), expected[f], 1e-8 * (1 + expected[f]))
            << "change " << change;
      }
      expect_fair(sharing, capacities, flows);
    }
  }
}

TEST(LinkSharingRandom, IncrementalAnswersEqualProgressiveFilling) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    run_random_system(seed);
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace trireme::sim
