// What several pages show in the same way.
#pragma once

#include <string>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "tools/page.h"
#include "tools/table.h"

namespace trireme::tools {

std::string gib_text(double value);
// "1.50 s (1.31 s to 2.12 s)"
std::string step_text(const planner::TimeEstimate& time);

Bar time_bar(const std::string& name, const planner::TimeEstimate& time);
// A bar a stage beside the card's limit, and the host's memory where something lives there.
void add_memory(const planner::Job& job, const planner::MemoryEstimate& memory, Page& page);
// Whose behaviour, which profile, which datasheet. `how`: what worked the numbers out.
void add_provenance(const planner::Job& job, Page& page,
                    const std::string& how = "Closed-form estimate");
// A table below its heading, unless it has no rows.
void add_section(const std::string& heading, const Table& table, Page& page);

}  // namespace trireme::tools
