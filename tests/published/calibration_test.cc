// Profiles fitted on the measurements beside this project, and held against other measurements:
// one card's points against another's, half of a table's sizes against the other half, runs against
// runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "nccl_tables.h"
#include "planner/calibrate/least_squares.h"
#include "planner/calibrate/machine.h"
#include "planner/calibrate/measurement_file.h"
#include "planner/calibrate/profile_fit.h"
#include "topologies/measured_collective.h"

namespace trireme::planner {
namespace {

class Calibration : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = published::shared_data_folder();
    if (folder_.empty()) {
      GTEST_SKIP() << "no measurements beside the project";
    }
  }
  [[nodiscard]] Microbenchmarks points(const std::string& file,
                                       const topologies::Cluster& cluster) const {
    MeasurementHints hints;
    hints.cluster = cluster;
    return read_measurements(folder_ + "/" + file, hints).points;
  }
  std::string folder_;
};

std::vector<double> errors_of(const std::vector<FitLine>& lines) {
  std::vector<double> errors;
  for (const FitLine& line : lines) {
    fmt::print("  {:<34} {:>3} points  median {:.1f} %\n", line.what, line.points,
               100 * line.residual);
    errors.push_back(line.residual);
  }
  return errors;
}

TEST_F(Calibration, AProfileOfOneCardPredictsAnother) {
  const auto h200 = topologies::narrowed(topologies::load_cluster("hgx-h200x1"), 2);
  const auto h100 = topologies::load_cluster("dgx-h100x1");
  ProfileFit fit = fit_profile(points("h200x2_microbench.jsonl", h200),
                               {.cluster = h200, .source = "h200x2", .host_timed = true});
  // On its own machine.
  for (const FitLine& line : fit.lines) {
    EXPECT_LT(line.residual, 0.08) << line.what;
  }
  const topologies::Profile profile = topologies::with_shipped_parts(fit.profile);
  // On another: scaled by the datasheet, and said so.
  Job job;
  job.cluster = h100;
  job.profile = profile;
  const ProfileSources sources = profile_sources(job);
  EXPECT_TRUE(sources.transferred);
  ASSERT_FALSE(sources.differs.empty());
  EXPECT_EQ(sources.differs.front(), "gpu: H200-SXM-141GB, here H100-SXM5-80GB");
  // Every point of the other card, launch-bound ones too.
  for (const double error :
       errors_of(errors_on_points(points("h100x1_microbench.jsonl", h100), h100, profile))) {
    EXPECT_LT(error, 0.15);
  }
}

// The profile that ships, made by this project's own benchmarks on another host.
TEST_F(Calibration, TheShippedProfileOfH200PredictsAnH100) {
  const auto h100 = topologies::load_cluster("dgx-h100x1");
  const topologies::Profile profile =
      topologies::load_profile(TRIREME_SOURCE_DIR "/topologies/profiles/hgx-h200.json");
  Job job;
  job.cluster = h100;
  job.profile = profile;
  EXPECT_TRUE(profile_sources(job).transferred);
  for (const double error :
       errors_of(errors_on_points(points("h100x1_microbench.jsonl", h100), h100, profile))) {
    EXPECT_LT(error, 0.15);
  }
}

// Latency and rate of each regime, four or five numbers a table, and the profile's own answers.
TEST_F(Calibration, TablesOfCollectivesFollowFromTheirRegimes) {
  int good = 0;
  int all = 0;
  for (const published::NcclTable& table : published::read_nccl_tables(folder_)) {
    CollectiveMeasurement one;
    one.cluster = table.cluster;
    one.group = table.group;
    one.collective = table.collective;
    for (const auto& row : table.rows) {
      one.points.push_back({static_cast<double>(row.bytes), row.seconds});
    }
    const topologies::CollectiveTable fitted = fit_table(one);
    std::vector<double> errors;
    for (const auto& row : table.rows) {
      if (row.bytes >= 1 << 20) {
        errors.push_back(std::abs(
            topologies::regime_seconds(fitted, static_cast<double>(row.bytes)) / row.seconds - 1));
      }
    }
    if (table.rows.size() >= 8 && !errors.empty()) {
      ++all;
      good += median_of(errors) < 0.10 ? 1 : 0;
    }
  }
  fmt::print("regimes: {} of {} tables under 10 %\n", good, all);
  EXPECT_GE(good, 20);
}

// Fitted on every other size, asked for the sizes between.
TEST_F(Calibration, TablesAnswerForSizesThatWereLeftOut) {
  int good = 0;
  int all = 0;
  std::vector<double> medians;
  for (const published::NcclTable& table : published::read_nccl_tables(folder_)) {
    CollectiveMeasurement one;
    one.cluster = table.cluster;
    one.group = table.group;
    one.collective = table.collective;
    for (std::size_t i = 0; i < table.rows.size(); i += 2) {
      one.points.push_back({static_cast<double>(table.rows[i].bytes), table.rows[i].seconds});
    }
    if (one.points.size() < 4) {
      continue;
    }
    topologies::Profile profile = topologies::shipped_profile();
    profile.collectives.push_back(fit_table(one));
    std::vector<double> errors;
    for (std::size_t i = 1; i < table.rows.size(); i += 2) {
      if (table.rows[i].bytes >= 1 << 20) {
        errors.push_back(
            std::abs(published::predicted_seconds(table, profile, table.rows[i].bytes) /
                         table.rows[i].seconds -
                     1));
      }
    }
    if (!errors.empty()) {
      ++all;
      medians.push_back(median_of(errors));
      good += medians.back() < 0.10 ? 1 : 0;
    }
  }
  fmt::print("sizes left out: {} of {} tables under 10 %, median {:.1f} %\n", good, all,
             100 * median_of(medians));
  EXPECT_GE(good, 20);
}

// The four collectives of one system give corrections of NCCL's model; the model alone, without the
// tables, must then be close where the shipped one was not.
TEST_F(Calibration, CorrectionsBringTheModelNearerToASystem) {
  int systems = 0;
  int good = 0;
  int tables = 0;
  for (const char* system : {"aic_h100_sxm_4gpu", "aic_a100_sxm_4gpu", "aic_b200_sxm_8gpu",
                             "aic_l40s_8gpu", "aic_h200_sxm_8gpu", "simumax_h100_8gpu"}) {
    MeasurementHints hints;
    std::vector<CollectiveMeasurement> measured;
    for (const published::NcclTable& table : published::read_nccl_tables(folder_)) {
      if (table.name.starts_with(system)) {
        hints.cluster = table.cluster;
        const auto file = read_measurements(folder_ + "/nccl_tests/" + table.name + ".json", hints);
        measured.insert(measured.end(), file.collectives.begin(), file.collectives.end());
      }
    }
    topologies::Profile profile = topologies::shipped_profile();
    double before = 0;
    double after = 0;
    for (const CollectiveFitReport& line : fit_collectives(measured, profile)) {
      before += line.model_error_before;
      after += line.model_error_after;
      ++tables;
      good += line.model_error_after < 0.10 ? 1 : 0;
    }
    fmt::print("{}: model {:.1f} % before, {:.1f} % after\n", system,
               100 * before / static_cast<double>(measured.size()),
               100 * after / static_cast<double>(measured.size()));
    // All sizes are fitted, small ones too: a table that was good may give up a point at the large.
    EXPECT_LE(after, before + 0.01 * static_cast<double>(measured.size())) << system;
    ++systems;
  }
  fmt::print("model with fitted corrections: {} of {} tables under 10 %\n", good, tables);
  EXPECT_EQ(systems, 6);
  EXPECT_GE(good, 18);
}

}  // namespace
}  // namespace trireme::planner
