// The pages that `--report FILE.html` writes, one a command.
#pragma once

#include <vector>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "tools/page.h"

namespace trireme::tools {

struct BudgetRequest;
struct CheckReport;
struct Comparison;
struct FaultOptions;
struct OfferAnswer;
struct PlanReport;
struct SimulatedStep;
struct TopologyAnswer;
struct WhatIfAnswer;

Page estimate_page(const planner::Job& job, const planner::Estimate& estimate);
Page plan_page(const planner::Job& job, const PlanReport& report);
Page whatif_page(const WhatIfAnswer& answer);
Page budget_page(const BudgetRequest& request, const std::vector<OfferAnswer>& answers);
// Requires: a recorded trace.
Page simulation_page(const planner::Job& job, const SimulatedStep& step,
                     const FaultOptions& faults);
Page check_page(const CheckReport& report);
Page compare_page(const Comparison& comparison);
Page topology_page(const TopologyAnswer& answer);

}  // namespace trireme::tools
