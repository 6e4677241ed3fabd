// One plan from lowering to a simulated step, and what the commands make of it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/op_times.h"
#include "core/program.h"
#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "sim/simulate.h"
#include "tools/report.h"

namespace trireme::tools {

struct SimulatedStep {
  StepProgram program;
  StepTimes times;
  sim::Simulation simulation;
  double step_seconds = 0;
  double constant_seconds = 0;  // of it: data loading, logging, scalars
  double wall_seconds = 0;      // what lowering and simulating took here
  // Memory in closed form; time and throughput as simulated: exposed time of each category is the
  // mean over the ranks.
  planner::Estimate estimate;
};

// Compute slows beside collectives by the profile's overlap_slowdown. Throws Error when no program
// can be written for the plan, or a fault names what does not exist.
SimulatedStep simulate_plan(const planner::Job& job, const planner::Plan& plan,
                            const sim::SimulateOptions& options);

// The step of a plan by simulation: what `plan --refine` ranks by. Requires: check_plan found no
// violation.
double simulated_seconds(const planner::Job& job, const planner::Plan& plan);

// simulate's keys beside the estimate's: events, simulation_seconds, ranks, links.
Json simulation_json(const planner::Job& job, const SimulatedStep& step);
// The busiest links first, at most `count` of those that carry anything.
std::vector<sim::LinkReport> busiest_links(const sim::Simulation& simulation, std::size_t count);

}  // namespace trireme::tools
