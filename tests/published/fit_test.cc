// The fit of the shipped constants: it recovers what rows were made with, what ships is what it
// gives.
#include "planner/calibrate/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/calibrate/left_out.h"
#include "planner/cost/interval.h"
#include "topologies/profile.h"

namespace trireme::planner {
namespace {

// Constants are recovered from rows that were made with them; a source that is left out is not
// read.
TEST(Fit, RecoversConstantsFromRows) {
  std::vector<ValidationCase> cases =
      validation_cases(shipped_rows(), topologies::shipped_profile());
  topologies::Profile truth = topologies::shipped_profile();
  truth.gpus.at("A100-SXM4-80GB").constants.at("matmul_efficiency") = 0.7;
  truth.frameworks.at("megatron-classic").at("host_factor") = 9;
  for (ValidationCase& one : cases) {
    if (one.found.skipped.empty() && one.measured_seconds) {
      one.measured_seconds = predict_seconds(one, truth);
    }
  }
  topologies::Profile fitted = topologies::shipped_profile();
  const FitReport report = fit_constants_to_rows(cases, "", fitted);
  // Whole sources: half of one says what the other half is.
  EXPECT_EQ(report.rows, std::ranges::count_if(cases, [](const ValidationCase& one) {
              return is_gated_row(one) && is_fitted_source(one.row.source);
            }));
  EXPECT_FALSE(is_fitted_source("simumax_b200") || is_fitted_source("megatron_bridge_perf"));
  EXPECT_LT(report.loss_after, report.loss_before);
  EXPECT_NEAR(fitted.gpus.at("A100-SXM4-80GB").constants.at("matmul_efficiency"), 0.7, 0.02);
  EXPECT_NEAR(fitted.frameworks.at("megatron-classic").at("host_factor"), 9, 0.6);
  EXPECT_EQ(fitted.frameworks.at("deepspeed").at("memory_traffic"),
            fitted.frameworks.at("megatron-classic").at("memory_traffic"));
  const std::size_t count = fit_constants().size();
  ASSERT_EQ(report.standard_errors.size(), count);
  ASSERT_EQ(report.correlation.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_LE(report.standard_errors[i], fit_constants()[i].width * 1.0001);
    EXPECT_NEAR(report.correlation[i][i], 1, 1e-9);
  }
}

// Errors and 90 % intervals of sources that neither the fit nor the interval saw.
TEST(Fit, HoldsForSourcesLeftOutAndSoDoTheirIntervals) {
  const topologies::Profile& shipped = topologies::shipped_profile();
  const std::vector<ValidationCase> cases = validation_cases(shipped_rows(), shipped);
  const std::vector<ValidatedRow> rows = validate_left_out(cases, shipped);
  // Errors of sources that the fit never saw; 10 % is asked of torchtitan.
  const std::map<std::string, double> gates = {{"simumax_b200", 0.12}, {"vtrain_single_node", 0.25},
                                               {"torchtitan", 0.105},  {"llm_foundry_mpt", 0.08},
                                               {"torch_h200", 0.05},   {"megatron_sc21", 0.06}};
  for (const SourceErrors& errors : source_errors(cases, rows, is_gated_row)) {
    if (const auto gate = gates.find(errors.source); gate != gates.end()) {
      EXPECT_LE(errors.mean_absolute, gate->second) << errors.source;
    }
  }
  const LeftOutIntervals found = left_out_intervals(cases, rows);
  EXPECT_GE(found.share_inside(), 0.85);
  EXPECT_LE(found.share_inside(), 0.95);
  for (const LeftOutInterval& one : found.intervals) {
    EXPECT_NEAR(shipped.intervals.at(one.behaviour).at("low"), one.low, 0.03) << one.behaviour;
    EXPECT_NEAR(shipped.intervals.at(one.behaviour).at("high"), one.high, 0.05) << one.behaviour;
  }
}

// The shipped constants are those that the fit gives.
TEST(Fit, ShippedConstantsAreTheFitted) {
  const topologies::Profile& shipped = topologies::shipped_profile();
  const std::vector<ValidationCase> cases = validation_cases(shipped_rows(), shipped);
  topologies::Profile fitted = shipped;
  const FitReport report = fit_constants_to_rows(cases, "", fitted);
  const std::vector<FitConstant> constants = fit_constants();
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const std::string& entry = constants[i].entries.front();
    const double value = constants[i].owner == FitConstant::Owner::kGpu
                             ? shipped.gpus.at(entry).constants.at(constants[i].name)
                             : shipped.frameworks.at(entry).at(constants[i].name);
    // Beyond half a standard error the models have moved and the fit is due again.
    EXPECT_LE(std::abs(std::log(value / report.values[i])), 0.5 * report.standard_errors[i] + 0.02)
        << entry << " " << constants[i].name << " " << value << " against " << report.values[i];
  }
}

// A profile that was measured on the machine says more: its interval is narrower.
TEST(Interval, IsNarrowerUnderAProfileOfTheMachine) {
  topologies::Profile calibrated = topologies::shipped_profile();
  calibrated.machine.emplace();
  for (const char* name : {"trireme", "megatron", "torchtitan@0.2.2"}) {
    const Framework framework = find_framework(name);
    const Interval wide = interval_of(framework, topologies::shipped_profile());
    const Interval narrow = interval_of(framework, calibrated);
    EXPECT_LT(wide.low, 1) << name;
    EXPECT_GT(wide.high, 1) << name;
    EXPECT_GT(narrow.low, wide.low) << name;
    EXPECT_LT(narrow.high, wide.high) << name;
  }
}

}  // namespace
}  // namespace trireme::planner
