// What a real framework launches beside what this model counts for the same plan: by kind, pass,
// layer and micro-batch.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "tools/profiler_trace.h"
#include "tools/report.h"

namespace trireme::tools {

using KindCounts = std::array<double, kLaunchKinds>;  // launches, by LaunchKind

// Of one layer in one micro-batch's forward or backward.
struct LayerLaunches {
  KindCounts counts{};
  double gpu_seconds = 0;  // theirs
};

struct LaunchComparison {
  std::string plan, trace;
  double predicted_seconds = 0, measured_seconds = 0;
  ProfiledStep step;
  std::size_t layers_of_model = 0, layers_found = 0;
  std::array<KindCounts, 2> ours{};    // forward, backward; of a dense layer of the plan
  std::array<KindCounts, 2> theirs{};  // mean over layers and micro-batches
  // Layers whose launches differ from their pass's median by more than a launch.
  struct Unlike {
    Phase phase = Phase::kForward;
    std::int32_t micro_batch = 0, layer = 0;
    double launches = 0, median = 0;
  };
  std::vector<Unlike> unlike;
};

// Of a plan file and a profiler's trace. Throws Error.
LaunchComparison compare_launches(const std::string& plan_file, const nlohmann::json& trace,
                                  const std::string& trace_path);
Json launches_json(const LaunchComparison& comparison);
void print_launches(const Console& console, const LaunchComparison& comparison);

}  // namespace trireme::tools
