// What `tune` has started so far, as it stands in its folder: a run is a plan file, what was
// started, its log, and a line of tune.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.h"
#include "tools/report.h"

namespace trireme::tools {

enum class TuneOutcome : std::uint8_t { kOk, kOutOfMemory, kFailed, kTimeout };
std::string_view to_string(TuneOutcome outcome);  // ok oom failed timeout

struct TuneRun {
  std::string name;    // of its files: 001, 002, …
  std::string layout;  // short form
  planner::Plan plan;
  double predicted_seconds = 0;  // when it was chosen
  double predicted_reserved_gib = 0;
  std::optional<double> measured_seconds;
  TuneOutcome outcome = TuneOutcome::kFailed;
  std::string detail;       // why it did not run
  double wall_seconds = 0;  // of the budget
};

Json runs_json(const std::vector<TuneRun>& runs, const std::string& framework);
// Those that `folder` keeps, in order; none where there is no tune.json. `job` is what they have to
// be of. Throws Error: another job's folder, or a file that is not tune's.
std::vector<TuneRun> read_runs(const std::string& folder, const std::string& job);
// Over the old file in one step.
void save_runs(const std::string& folder, const std::string& job, const std::string& framework,
               const std::vector<TuneRun>& runs);

}  // namespace trireme::tools
