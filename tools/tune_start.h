// One run of `tune`: what starts a layout, and what its log then says.
#pragma once

#include <string>

#include "planner/cost/estimate.h"
#include "tools/plan_file.h"
#include "tools/tune_state.h"

namespace trireme::tools {

struct TuneStart {
  JobOptions job;       // whose framework is what starts
  std::string format;   // of the launch file; empty: the framework's own
  std::string flavor;   // torchtitan's
  std::string backend;  // of trireme's own runs
  std::string submit;   // {command} {file} {log} {layout}; empty: {command}
  std::string folder;
  std::int64_t steps = 10;
};

// The job's framework becomes that of the program that is started, where it names but how that
// shards (fsdp2). Throws Error when the format starts another.
void name_program(TuneStart& start);

// Writes the plan and what starts it, starts it for `limit` seconds at most, and reads the outcome.
// The run's name is of its files in the folder. Throws Error when the machine lacks what every run
// needs.
TuneRun start_run(const TuneStart& start, const std::string& name,
                  const planner::Estimate& estimate, double limit);

// The layout's launch file in the framework's format, or nothing for trireme: its path.
std::string launch_file_of(const TuneStart& start, const std::string& name);

}  // namespace trireme::tools
