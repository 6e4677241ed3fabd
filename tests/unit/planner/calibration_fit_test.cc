// Fits on points made from known latencies and rates must find them again.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "planner/calibrate/collective_fit.h"
#include "planner/calibrate/least_squares.h"
#include "topologies/measured_collective.h"

namespace trireme::planner {
namespace {

using topologies::Collective;

TEST(LeastSquares, CoefficientsAreNeverNegative) {
  // The unbounded solution of this system is (3, -1).
  const auto x = nonnegative_least_squares({{1, 1}, {1, 2}, {1, 3}}, {2, 1, 0});
  EXPECT_NEAR(x[0], 1, 1e-9);
  EXPECT_EQ(x[1], 0);
  const auto exact = nonnegative_least_squares({{1, 1}, {1, 2}, {1, 3}}, {5, 7, 9});
  EXPECT_NEAR(exact[0], 3, 1e-9);
  EXPECT_NEAR(exact[1], 2, 1e-9);
}

TEST(LeastSquares, OneWildPointDoesNotMoveTheFit) {
  std::vector<std::vector<double>> rows;
  std::vector<double> seconds;
  for (int i = 0; i < 12; ++i) {
    const double bytes = std::ldexp(1.0, 20 + i / 2) * (i % 2 == 0 ? 1 : 1.5);
    rows.push_back({1, bytes});
    seconds.push_back(2e-5 + bytes / 2e11);
  }
  seconds[7] *= 5;
  const auto x = robust_costs(rows, seconds);
  EXPECT_NEAR(x[0] / 2e-5, 1, 0.05);
  EXPECT_NEAR(x[1] * 2e11, 1, 0.05);
}

CollectiveMeasurement two_regimes() {
  CollectiveMeasurement measured;
  measured.cluster = topologies::load_cluster("hgx-h200x1");
  measured.group = {.ranks = 8, .ranks_per_node = 8};
  measured.source = "made up";
  for (std::int64_t size = 1024; size <= 1 << 30; size *= 2) {
    const auto bytes = static_cast<double>(size);
    const double seconds = bytes <= 1 << 18 ? 1e-5 + bytes / 3e10 : 3e-5 + bytes / 2.5e11;
    measured.points.push_back({bytes, seconds});
  }
  return measured;
}

TEST(CollectiveFit, FindsTheRegimes) {
  const topologies::CollectiveTable table = fit_table(two_regimes());
  ASSERT_EQ(table.regimes.size(), 2U);
  EXPECT_EQ(table.regimes[0].up_to_bytes, 1 << 18);
  EXPECT_NEAR(table.regimes[0].latency.value, 1e-5, 1e-8);
  EXPECT_NEAR(table.regimes[1].rate.value, 2.5e11, 1e8);
  EXPECT_LT(table.residual, 1e-6);
  EXPECT_EQ(table.gpu, "H200-SXM-141GB");
}

TEST(CollectiveFit, SizesThatTheHostBoundsAreLeftOutWhenTheHostTimed) {
  CollectiveMeasurement measured = two_regimes();
  for (auto& point : measured.points) {
    point.seconds = std::max(point.seconds, 8e-5);
  }
  measured.host_timed = true;
  const topologies::CollectiveTable table = fit_table(measured);
  EXPECT_GT(table.points.front().bytes, 1 << 20);
  EXPECT_LT(table.points.front().bytes, 1 << 26);
}

TEST(CollectiveFit, CorrectionsMoveTheModelTowardsAnotherMachine) {
  // A machine whose rings reach 70 % of what the shipped constants say: the model must follow for
  // a size and a group that were not measured.
  topologies::Profile slow = topologies::shipped_profile();
  slow.networks["NVLink Hopper"]["ring_share"] = 0.6;
  CollectiveMeasurement measured = two_regimes();
  measured.points.clear();
  measured.collective = Collective::kAllGather;
  measured.group = {.ranks = 4, .ranks_per_node = 4};
  const auto seconds = [&](const topologies::Profile& profile, std::int64_t ranks, double bytes) {
    return topologies::collective_time(measured.cluster, profile, Collective::kAllGather,
                                       {.ranks = ranks, .ranks_per_node = ranks},
                                       Bytes(static_cast<std::int64_t>(bytes)))
        .time.value;
  };
  for (std::int64_t size = 1 << 20; size <= 1 << 30; size *= 4) {
    const auto bytes = static_cast<double>(size);
    measured.points.push_back({bytes, seconds(slow, 4, bytes)});
  }
  topologies::Profile profile = topologies::shipped_profile();
  const auto reports = fit_collectives({measured}, profile);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_GT(reports[0].model_error_before, 0.1);
  EXPECT_LT(reports[0].model_error_after, 0.03);
  const double other = 3e8;
  EXPECT_NEAR(seconds(profile, 8, other) / seconds(slow, 8, other), 1, 0.05);
  EXPECT_EQ(profile.collectives.size(), 1U);
}

}  // namespace
}  // namespace trireme::planner
