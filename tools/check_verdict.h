// Whether a launch configuration fits, as far as that is known: a verdict that rests on something
// the file leaves open, or the program does not model, is none.
#pragma once

#include <string>

#include "planner/cost/estimate.h"
#include "planner/start/launch_rules.h"

namespace trireme::tools {

struct Verdict {
  bool known = true;
  std::string why;  // why it is not known, and what would tell
};

// The same plan with every layer recomputed.
planner::Plan recomputed(planner::Plan plan);

// `fits_elsewhere`: with other branches of what the file leaves open, it fits.
Verdict verdict_of(const planner::LaunchConfig& config, const planner::LaunchCase& found,
                   const planner::Estimate& estimate, bool fits_elsewhere);

}  // namespace trireme::tools
