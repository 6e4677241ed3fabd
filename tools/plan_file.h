// The file that `plan -o` writes and estimate, simulate, run and export read: the job as options
// and the whole layout. Plain numbers whose keys carry their units.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/json_reader.h"
#include "planner/cost/estimate.h"
#include "planner/plan/plan.h"
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
// The parts of the file that a run's result holds too: the options that were given, files by their
// absolute path, and back; the layout as layout_json writes it. Throw Error: a wrong key or value.
nlohmann::json job_options_json(const JobOptions& options);
JobOptions read_job_options(JsonReader reader);
planner::Plan read_layout(JsonReader reader);
// What `over` gives replaces what `base` says.
JobOptions merged(JobOptions base, const JobOptions& over);

}  // namespace trireme::tools
