// How a plan's layers on its pipeline chunks are said to Megatron: by nothing, by counting
// embedding and head as layers, by the first and last stage, or chunk by chunk.
#pragma once

#include <cstdint>
#include <string>

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// The plainest form that gives exactly the plan's chunks. At most one of the three is used.
struct StageSplit {
  bool account_for_embedding = false, account_for_loss = false;
  std::int64_t first_stage = 0, last_stage = 0;  // layers of those stages; 0: not said
  std::string layout;                            // "Et*2|t*3|t*2L"; empty: not used
};
StageSplit megatron_stages(const LaunchPlan& launch);

}  // namespace trireme::planner
