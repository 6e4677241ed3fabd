// What whole runs say that micro-benchmarks cannot: corrections by op category and of the host's
// time to issue kernels, shrunk towards none while runs are few, and the interval of what is left.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "topologies/profile.h"

namespace trireme::planner {

// Seconds of a category's ops in one step: measured, and predicted under the profile being
// corrected.
struct CategorySeconds {
  double measured = 0, predicted = 0;
};

struct MeasuredRun {
  std::string name;
  double step_seconds = 0;  // measured; 0: unknown
  // A run that the models can predict…
  std::optional<Job> job;
  Plan plan;
  // … or a `trireme run` result with its predictions: by "compute", "collective", "send_recv".
  std::map<std::string, CategorySeconds> categories;
  double predicted_step_seconds = 0;  // 0: unknown; from `job` when that is there
};

struct RunFitLine {
  std::string name;
  double measured_seconds = 0, before_seconds = 0, after_seconds = 0;
};
struct RunFit {
  std::vector<RunFitLine> runs;
  double error_before = 0, error_after = 0;  // mean absolute, of the step times
};

// Sets profile.corrections (on top of those it has) and profile.interval. Throws Error when no run
// says anything.
RunFit fit_runs(const std::vector<MeasuredRun>& runs, topologies::Profile& profile);

// A result of `trireme run -o`. Throws Error: another file, or a run without predictions.
MeasuredRun read_run_result(const std::string& path);

}  // namespace trireme::planner
