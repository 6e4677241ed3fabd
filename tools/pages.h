// The pages that `--report FILE.html` of plan, estimate, whatif and budget writes.
#pragma once

#include <vector>

#include "tools/budget_offers.h"
#include "tools/page.h"
#include "tools/plan_report.h"
#include "tools/whatif_report.h"

namespace trireme::tools {

Page estimate_page(const planner::Job& job, const planner::Estimate& estimate);
Page plan_page(const planner::Job& job, const PlanReport& report);
Page whatif_page(const WhatIfAnswer& answer);
Page budget_page(const BudgetRequest& request, const std::vector<OfferAnswer>& answers);

}  // namespace trireme::tools
