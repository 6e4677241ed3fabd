// The plans that fill what a printed row leaves open.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/calibrate/published.h"

namespace trireme::planner {

// Variants of `first` over every layout field that the row lacks, in order of what usually runs
// fastest; each obeys what the row says. Empty: nothing does.
std::vector<Plan> candidates_of(const PublishedRow& row, const Job& job, Plan first,
                                std::int64_t gpus);

}  // namespace trireme::planner
