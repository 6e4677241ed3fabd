// The words of a table's column "fits".
#pragma once

#include "planner/cost/estimate.h"

namespace trireme::tools {

inline const char* fit_word(planner::Fit fit) {
  return fit == planner::Fit::kFits ? "yes" : fit == planner::Fit::kAtRisk ? "at risk" : "no";
}

}  // namespace trireme::tools
