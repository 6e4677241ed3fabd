// What this project's runtime does beside products in 8 bits (planner/lower/narrow.h): passes that
// find scales, cast and transpose.
#pragma once

#include <cstdint>

#include "models/work.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Adds them to the products of a layer, where the job multiplies so (multiplies_narrow). What
// freeze_layer takes of a frozen layer's products goes with their casts.
void add_narrow_casts(const Job& job, const Plan& plan, std::int64_t layer,
                      models::LayerWork& work);

}  // namespace trireme::planner
