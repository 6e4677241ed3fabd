// The file that `plan -o` writes and estimate, simulate, run and export read: the job as options
// and the whole layout. Plain numbers whose keys carry their units.
#pragma once

#include <string>

#include "planner/cost/estimate.h"
#include "planner/plan.h"
#include "tools/options.h"

namespace trireme::tools {

struct PlanFile {
  JobOptions options;
  planner::Plan plan;
};

// Throws Error when the file cannot be written; an old one is left whole then.
void write_plan_file(const std::string& path, const JobOptions& options,
                     const planner::Estimate& estimate);
// Throws Error: missing, not a plan file, a wrong key or value.
PlanFile read_plan_file(const std::string& path);
// What `over` gives replaces what `base` says.
JobOptions merged(JobOptions base, const JobOptions& over);

}  // namespace trireme::tools
