// A simulated step as one page that needs nothing else: what was simulated, the timeline as a
// drawing, times, links.
#pragma once

#include <string>

#include "planner/plan/job.h"
#include "tools/simulation.h"

namespace trireme::tools {

// Requires: a recorded trace.
std::string simulation_page(const planner::Job& job, const SimulatedStep& step);

}  // namespace trireme::tools
