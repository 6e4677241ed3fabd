// Fits the constants of topologies/fitted.json on published rows: all of them at once, by least
// squares on the logarithms of predicted over measured step times, each constant held by a prior of
// a width.
#pragma once

#include <string>
#include <vector>

#include "planner/calibrate/prior_fit.h"
#include "planner/calibrate/validation.h"
#include "topologies/profile.h"

namespace trireme::planner {

// One constant of the profile, or the same constant of several entries that share it.
struct FitConstant {
  enum class Owner { kGpu, kFramework } owner = Owner::kGpu;
  std::vector<std::string> entries;
  std::string name;
  double prior =
      0.5;  // what it is without a row: a datasheet, a micro-benchmark, another framework
  double width = 0.1;  // standard deviation of its logarithm without a row
};

// `error`: what is expected of the logarithm of a row's ratio. Rows of one source share its machine
// and its mistakes, so that many of them say no more than a few.
struct FitSource {
  std::string source;
  double error = 0.1;
};

std::vector<FitConstant> fit_constants();
// Whole sources are fitted or scored: rows of one share its machine and its mistakes.
std::vector<FitSource> fit_sources();
bool is_fitted_source(const std::string& source);

struct FitReport : PriorFit {
  int rows = 0;
};

// Sets the constants in `profile`, from which the search begins, fitted on the gated rows of the
// fit sources but `left_out` (empty: none).
FitReport fit_constants_to_rows(const std::vector<ValidationCase>& cases,
                                const std::string& left_out, topologies::Profile& profile);

}  // namespace trireme::planner
