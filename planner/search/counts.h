// Which counts each level of the space of layouts takes.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

std::vector<std::int64_t> divisors_of(std::int64_t number);

// Degrees of context parallelism up to `most` ranks: those worth their messages, or all where
// somebody names the axis.
std::vector<std::int64_t> context_degrees(const Job& job, std::int64_t most, bool named);

// How many layers of a (virtual) stage recompute where not all of them do: its quarters.
std::vector<std::int64_t> partly_recomputed(const Job& job, const Plan& plan);

}  // namespace trireme::planner
