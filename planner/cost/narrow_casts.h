// What this project's runtime does beside products in 8 bits (planner/lower/narrow.h): passes that
// find scales, cast and transpose.
#pragma once

#include "models/work.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Adds them to the products of a dense layer, where the job multiplies so (multiplies_narrow).
void add_narrow_casts(const Job& job, const Plan& plan, models::LayerWork& work);

}  // namespace trireme::planner
