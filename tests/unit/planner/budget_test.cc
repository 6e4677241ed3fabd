#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "planner/budget/energy.h"
#include "planner/budget/failures.h"
#include "planner/budget/goodput.h"
#include "planner/budget/whole_run.h"

namespace trireme::planner {
namespace {

constexpr double kHour = 3600;
constexpr double kMinute = 60;

// Daly 2006's own examples: a restart of 10 min, a save of 5 min; 117, 57 and 9.1 min.
TEST(Goodput, DalysIntervalIsThatOfHisExamples) {
  for (const auto& [hours, minutes] : {std::pair{24.0, 116.7}, {6.0, 56.7}, {0.25, 9.14}}) {
    const Stops stops = {
        .mean_between = hours * kHour, .restart = 10 * kMinute, .save = 5 * kMinute};
    EXPECT_NEAR(daly_interval(stops) / kMinute, minutes, 0.05);
    EXPECT_NEAR(best_interval(stops) / daly_interval(stops), 1, 0.01);
  }
}

TEST(Goodput, TheSimulationMeetsTheClosedForm) {
  for (const double hours : {0.5, 3.0, 48.0}) {
    WholeRun run;
    run.useful_seconds = 30 * 24 * kHour;
    run.stops = {.mean_between = hours * kHour, .restart = 10 * kMinute, .save = kMinute};
    run.interval = best_interval(run.stops);
    run.trials = 10'000;
    const WholeRunResult result = simulate_run(run);
    ASSERT_TRUE(result.ends);
    EXPECT_NEAR(result.goodput / goodput_of(run.stops, run.interval), 1, 0.01) << hours;
  }
}

TEST(Goodput, TheBestSimulatedIntervalIsNearDalys) {
  WholeRun run;
  run.useful_seconds = 10 * 24 * kHour;
  run.stops = {.mean_between = 6 * kHour, .restart = 10 * kMinute, .save = 5 * kMinute};
  run.trials = 2000;
  const double best = best_simulated_interval(run);
  // The curve is flat at its top: what counts is that nothing is lost against Daly's.
  EXPECT_NEAR(goodput_of(run.stops, best) / goodput_of(run.stops, daly_interval(run.stops)), 1,
              0.005);
}

TEST(WholeRun, IsTheSameOnAnyNumberOfThreads) {
  WholeRun run;
  run.useful_seconds = 5 * 24 * kHour;
  run.stops = {.mean_between = 4 * kHour, .restart = 10 * kMinute, .save = 30};
  run.interval = 20 * kMinute;
  run.trials = 500;
  run.threads = 1;
  const WholeRunResult one = simulate_run(run);
  run.threads = 3;
  const WholeRunResult three = simulate_run(run);
  EXPECT_EQ(one.mean_seconds, three.mean_seconds);
  EXPECT_EQ(one.high_seconds, three.high_seconds);
  run.seed = 2;
  EXPECT_NE(simulate_run(run).mean_seconds, one.mean_seconds);
}

// Llama 3: 419 unexpected stops of 16,384 GPUs in 54 days, over 90 % effective time. Its papers and
// talks name neither the save nor the restart: 5 s and 10 min are this project's defaults.
TEST(WholeRun, Llama3sPublishedRunIsReproducedFromItsRates) {
  const topologies::Cluster cluster = topologies::load_cluster("dgx-h100x2048");
  const double between = mean_seconds_between_failures(cluster, find_failure_rate("llama-3"));
  EXPECT_NEAR(between / kHour, 54.0 * 24 / 419, 0.02);
  WholeRun run;
  run.stops = {.mean_between = between, .restart = 10 * kMinute, .save = 5};
  run.interval = best_interval(run.stops);
  run.useful_seconds = 54 * 24 * kHour * 0.92;
  run.trials = 2000;
  const WholeRunResult result = simulate_run(run);
  EXPECT_NEAR(result.failures, 419, 0.02 * 419);
  EXPECT_NEAR(result.goodput, 0.92, 0.02);
}

TEST(WholeRun, ARunThatOnlyRestartsDoesNotEnd) {
  WholeRun run;
  run.useful_seconds = 24 * kHour;
  run.stops = {.mean_between = 60, .restart = 10 * kMinute, .save = 60};
  run.interval = 60;
  EXPECT_FALSE(simulate_run(run).ends);
}

TEST(WholeRun, WithoutSparesItWaitsForTheRepair) {
  WholeRun run;
  run.useful_seconds = 10 * 24 * kHour;
  run.stops = {.mean_between = 24 * kHour, .restart = 10 * kMinute, .save = 5};
  run.interval = 30 * kMinute;
  run.trials = 500;
  const double with_spares = simulate_run(run).mean_seconds;
  run.repairs = {.seconds = 12 * kHour, .spares = 0};
  const double waiting = simulate_run(run).mean_seconds;
  EXPECT_NEAR(waiting - with_spares, 10 * 12 * kHour, 0.15 * 10 * 12 * kHour);
  run.repairs.speed_without_one = 0.9;
  EXPECT_LT(simulate_run(run).mean_seconds, waiting);
}

TEST(Failures, RatesGoByGpusAndUnknownOnesAreRefused) {
  const topologies::Cluster one = topologies::load_cluster("dgx-h100");
  const double day = 86400;
  EXPECT_NEAR(mean_seconds_between_failures(one, find_failure_rate("4")), 250 * day, 1);
  EXPECT_EQ(mean_seconds_between_failures(one, find_failure_rate("none")), 0);
  // A spot node lost every 20 hours.
  EXPECT_NEAR(mean_seconds_between_failures(one, find_failure_rate("none"), 0.05), 20 * kHour, 1);
  EXPECT_THROW(find_failure_rate("often"), Error);
  EXPECT_THROW(find_failure_rate("-1"), Error);
}

// Eight H100 at 700 W: 10.2 kW of the system, of which heavy training draws 8.2 to 8.4.
TEST(Energy, OfANodeThatTrainsForADay) {
  const topologies::Cluster one = topologies::load_cluster("dgx-h100");
  EXPECT_NEAR(energy_kwh(one, 24, 1, {.facility_share = 1}) / 24, 8.3, 0.15);
  EXPECT_LT(energy_kwh(one, 24, 0), 0.5 * energy_kwh(one, 24, 1));
}

}  // namespace
}  // namespace trireme::planner
