// What `plan` prints, and how its layout options narrow the search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "planner/search/switches.h"
#include "tools/options.h"
#include "tools/plan_advice.h"
#include "tools/report.h"
#include "tools/search_more.h"

namespace trireme::tools {

struct PlanReport {
  planner::SearchResult result;
  planner::Goal goal = planner::Goal::kTime;
  planner::UtilityWeights weights;
  double dollars_per_gpu_hour = 0;
  std::int64_t idle_gpus = 0;
  bool batch_assumed = false;  // no --global-batch: one sequence a GPU
  std::vector<planner::SwitchGain> switches;
  std::string reason;             // why the first is not the fastest
  std::vector<bool> simulated;    // by row, of those that --refine judged: else by the closed form
  std::vector<Advice> would_fit;  // when nothing fits
  std::vector<std::string> reasons;  // when nothing is legal
  std::vector<Elsewhere> elsewhere;  // the same job under programs that people run
  std::optional<Standing> standing;  // of --against
  std::vector<std::string> remarks;  // sizes that divide badly
};

// Layout options as constraints and fixed choices.
void fix_layout(const LayoutOptions& options, planner::SearchOptions& search);
// No layout is legal on all GPUs: narrows the job to the largest number of GPUs that has one.
// Returns whether any has.
bool use_fewer_gpus(planner::Job& job, const planner::SearchOptions& search, bool batch_assumed);

// "stage 0 needs ... GiB, of which ...; 3.1 GiB too much"
double missing_gib(
    const planner::MemoryEstimate& memory);  // of the host's memory where that is short
std::string miss_text(const planner::MemoryEstimate& memory);

// Of the job's GPUs at the report's price.
double dollars_per_step(const planner::Job& job, const PlanReport& report, double step_seconds);

void print_plan_json(const Console& console, const planner::Job& job, const PlanReport& report);
void print_plan(const Console& console, const planner::Job& job, const PlanReport& report);

}  // namespace trireme::tools
