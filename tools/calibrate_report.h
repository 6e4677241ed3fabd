// What `trireme calibrate` tells about its fits, and how good each is.
#pragma once

#include <string>
#include <vector>

#include "planner/calibrate/measurement_file.h"
#include "planner/calibrate/profile_fit.h"
#include "planner/calibrate/run_fit.h"
#include "tools/program.h"

namespace trireme::tools {

struct CalibrationReport {
  std::string output;  // the profile's file
  std::vector<planner::FitLine> fits;
  std::vector<planner::CollectiveFitReport> collectives;
  std::vector<planner::CollectiveMeasurement> measured;
  std::vector<planner::NcclLogTable> tables;  // as printed by nccl-tests, beside `measured`
  planner::RunFit runs;
  std::vector<std::string> remarks;
};

// `profile` is what was saved: bus bandwidths beside the logged ones are its answers.
void print_calibration(const Console& console, const CalibrationReport& report,
                       const topologies::Profile& profile, bool json);

}  // namespace trireme::tools
