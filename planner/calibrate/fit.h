// Fits the constants of topologies/fitted.json on published rows: which constants, on which
// sources, and the loss.
#pragma once

#include <string>
#include <vector>

#include "planner/calibrate/validation.h"
#include "topologies/profile.h"

namespace trireme::planner {

// One constant of the profile, or the same constant of several entries that share it.
struct FitConstant {
  enum class Owner { kGpu, kFramework, kNetwork } owner = Owner::kGpu;
  std::vector<std::string> entries;
  std::string name;
  double low = 0, high = 1;  // physical bounds
  double prior = 0.5;        // without a measurement: the datasheet, another card, a plain guess
};

struct FitSource {
  std::string source;
  double target = 0.1;  // errors are weighed by what is asked of the source
};

// Constants that are fitted together on sources that tell them apart.
struct FitGroup {
  std::string name;
  std::vector<FitConstant> constants;
  std::vector<FitSource> sources;
};

// The groups in the order they are fitted.
std::vector<FitGroup> fit_groups();

struct FitReport {
  double loss_before = 0, loss_after = 0;
  int rows = 0;
};

// Fits one group in place, leaving out the rows of `left_out` (empty: none); when a source is left
// out the constants start from, and without any row stay at, their priors. Rows of a case that
// fail count as 0.
FitReport fit_group(const FitGroup& group, const std::vector<ValidationCase>& cases,
                    const std::string& left_out, int evaluations, topologies::Profile& profile);

}  // namespace trireme::planner
