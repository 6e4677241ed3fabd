// When a stage waits for what it sent: the memory of a message serves again only then.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/plan.h"

namespace trireme::planner::lowering {

// By action of a stage's order: the earlier actions whose sends are over before it starts.
// `blocking`: sends are waited for at once, not beside the next action.
std::vector<std::vector<std::uint32_t>> waits_for_sends(const Plan& plan, std::int64_t stage,
                                                        bool blocking);

}  // namespace trireme::planner::lowering
