// Routed experts on the reference backend: gradients are the slopes of what forward computes, and
// rows come back from where they went.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/cpu/experts.h"

namespace trireme::runtime::cpu {
namespace {

std::vector<double> normal(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> draw;
  std::vector<double> values(count);
  for (double& value : values) {
    value = draw(random);
  }
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

constexpr double kStep = 1e-6;
const std::vector<std::int32_t> kCounts = {3, 0, 4, 1, 2, 0};  // by sender, then expert

TEST(CpuExperts, RoutingsGradientIsTheSlopeOfTheWeights) {
  for (const int kind : {0, 1, 2, 3, 4}) {
    const bool sigmoid = kind % 2 == 1;
    RouteShape shape{.tokens = 4, .experts = 6, .chosen = 3, .sigmoid = sigmoid, .biased = sigmoid};
    shape.normalises = kind < 2;
    shape.scale = kind == 0 ? 1 : 2.5;
    shape.groups = kind == 4 ? 3 : 0;
    shape.groups_chosen = 2;
    std::vector<double> logits = normal(24, 1);
    const std::vector<double> bias = {0.3, -0.2, 0.1, 0, 0, -0.4};
    const std::vector<double> dweights = normal(12, 2);
    std::vector<double> weights(12);
    std::vector<std::int32_t> experts(12);
    route_forward<double>(shape, logits.data(), bias.data(), weights.data(), experts.data());
    std::vector<double> dlogits(24);
    route_backward<double>(shape, dweights.data(), weights.data(), experts.data(), logits.data(),
                           dlogits.data());
    for (std::size_t token = 0; token < 4; ++token) {
      if (shape.normalises) {
        EXPECT_NEAR(std::accumulate(&weights[3 * token], &weights[3 * token] + 3, 0.0), shape.scale,
                    1e-14);
      }
    }
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double before = logits[i];
      const auto loss_at = [&](double value) {
        logits[i] = value;
        std::vector<double> moved(12);
        std::vector<std::int32_t> chosen(12);
        route_forward<double>(shape, logits.data(), bias.data(), moved.data(), chosen.data());
        EXPECT_EQ(chosen, experts);
        return dot(moved, dweights);
      };
      const double slope = (loss_at(before + kStep) - loss_at(before - kStep)) / (2 * kStep);
      logits[i] = before;
      EXPECT_NEAR(dlogits[i], slope, 1e-8) << i;
    }
  }
}

// Groups {0, 1}, {2, 3}, {4, 5}: the best pair is the last's, the best single the first's.
TEST(CpuExperts, OnlyExpertsOfTheBestGroupsAreChosen) {
  const std::vector<double> logits = {3, -9, 0, 0, 2, 2};
  std::vector<double> weights(2);
  std::vector<std::int32_t> experts(2);
  RouteShape shape{.tokens = 1, .experts = 6, .chosen = 2, .sigmoid = true};
  shape.groups = 3;
  shape.groups_chosen = 1;
  route_forward<double>(shape, logits.data(), nullptr, weights.data(), experts.data());
  EXPECT_EQ(experts, (std::vector<std::int32_t>{4, 5}));
  shape.groups_by_two = false;
  route_forward<double>(shape, logits.data(), nullptr, weights.data(), experts.data());
  EXPECT_EQ(experts, (std::vector<std::int32_t>{0, 1}));
}

TEST(CpuExperts, BiasChoosesAndDoesNotWeigh) {
  const RouteShape shape{.tokens = 1, .experts = 3, .chosen = 1, .sigmoid = true, .biased = true};
  const std::vector<double> logits = {2, 1, 0};
  const std::vector<double> bias = {0, 0, 1};
  std::vector<double> weights(1);
  std::vector<std::int32_t> experts(1);
  route_forward<double>(shape, logits.data(), bias.data(), weights.data(), experts.data());
  EXPECT_EQ(experts[0], 2);
  EXPECT_DOUBLE_EQ(weights[0], 1.0);
}

TEST(CpuExperts, EqualScoresGoToTheLowerExpertAndSlotsKeepTheirOrder) {
  const RouteShape shape{.tokens = 2, .experts = 4, .chosen = 2};
  const std::vector<double> logits(8, 1.0);
  std::vector<double> weights(4);
  std::vector<std::int32_t> experts(4);
  route_forward<double>(shape, logits.data(), nullptr, weights.data(), experts.data());
  EXPECT_EQ(experts, (std::vector<std::int32_t>{0, 1, 0, 1}));
  std::vector<std::int32_t> places(4);
  std::vector<std::int32_t> counts(4);
  expert_places(4, 4, experts.data(), places.data(), counts.data());
  EXPECT_EQ(places, (std::vector<std::int32_t>{0, 2, 1, 3}));
  EXPECT_EQ(counts, (std::vector<std::int32_t>{2, 2, 0, 0}));
}

TEST(CpuExperts, CombinationsGradientIsItsSlope) {
  const RowsShape shape{.tokens = 2, .chosen = 2, .width = 3};
  const std::vector<std::int32_t> places = {2, 0, 3, 1};
  std::vector<double> y = normal(12, 3);
  std::vector<double> weights = normal(4, 4);
  const std::vector<double> dx = normal(6, 5);
  std::vector<double> dy(12);
  std::vector<double> dweights(4);
  combine_backward<double>(shape, dx.data(), y.data(), places.data(), weights.data(), dy.data(),
                           dweights.data());
  const auto loss = [&] {
    std::vector<double> x(6);
    combine_rows<double>(shape, y.data(), places.data(), weights.data(), x.data());
    return dot(x, dx);
  };
  const auto check = [&](std::vector<double>& values, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double before = values[i];
      values[i] = before + kStep;
      const double above = loss();
      values[i] = before - kStep;
      const double slope = (above - loss()) / (2 * kStep);
      values[i] = before;
      EXPECT_NEAR(gradient[i], slope, 1e-8) << i;
    }
  };
  check(y, dy);
  check(weights, dweights);
}

TEST(CpuExperts, RegroupedRowsComeBack) {
  const std::vector<double> sent = normal(20, 6);
  std::vector<double> grouped(20);
  std::vector<double> back(20);
  regroup_rows<double>({.senders = 2, .experts = 3}, 2, kCounts.data(), sent.data(), grouped.data(),
                       false);
  regroup_rows<double>({.senders = 2, .experts = 3}, 2, kCounts.data(), grouped.data(), back.data(),
                       true);
  EXPECT_EQ(back, sent);
  // Expert 0 has the first sender's first three rows, then the second's first, its eighth of all.
  EXPECT_EQ(grouped[6], sent[14]);
}

TEST(CpuExperts, EachExpertMultipliesItsRows) {
  const std::vector<double> rows = normal(20, 7);
  const std::vector<double> weights = normal(18, 8);  // three of [3, 2]
  std::vector<double> product(30);
  expert_matmul<double>({.n = 3, .k = 2, .transpose_b = true}, {.senders = 2, .experts = 3},
                        kCounts.data(), rows.data(), weights.data(), product.data(), false);
  for (std::size_t row = 0; row < 10; ++row) {
    const std::size_t expert = row < 4 ? 0 : row < 6 ? 1 : 2;
    for (std::size_t j = 0; j < 3; ++j) {
      const double* weight = &weights[expert * 6 + j * 2];
      EXPECT_NEAR(product[row * 3 + j], rows[2 * row] * weight[0] + rows[2 * row + 1] * weight[1],
                  1e-14);
    }
  }
}

TEST(CpuExperts, AnExpertWithoutRowsHasNoGradient) {
  const std::vector<std::int32_t> counts = {0, 2};
  const std::vector<double> dy = normal(4, 9);
  const std::vector<double> x = normal(4, 10);
  std::vector<double> gradient(8, 777.0);
  expert_matmul<double>({.m = 2, .n = 2, .transpose_a = true}, {.senders = 1, .experts = 2},
                        counts.data(), dy.data(), x.data(), gradient.data(), false);
  EXPECT_EQ(std::vector<double>(gradient.begin(), gradient.begin() + 4),
            std::vector<double>(4, 0.0));
  EXPECT_NEAR(gradient[4], dy[0] * x[0] + dy[2] * x[2], 1e-14);
}

}  // namespace
}  // namespace trireme::runtime::cpu
