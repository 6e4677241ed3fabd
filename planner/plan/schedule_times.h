// When the actions of a pipeline's ranks begin if every pass takes a given time and nothing but
// passes and messages does: the order itself, without streams, memory or contention. Lowering asks
// it in passes as long as each other, the closed form in seconds.
#pragma once

#include <vector>

#include "planner/plan/schedule.h"

namespace trireme::planner {

// Of one micro-batch through a chunk.
struct PassSeconds {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  double before_gradient = 0;  // of input_gradient: what needs no gradient to begin
};

struct ScheduleTimes {
  std::vector<std::vector<Action>> actions;  // by rank
  std::vector<std::vector<double>> begins;   // of each
  double end = 0;                            // of the last one
};

// `chunks`: in model order. `message`: from a rank to another one. Requires: a legal schedule.
ScheduleTimes time_schedule(const Plan& plan, const std::vector<PassSeconds>& chunks,
                            double message);

}  // namespace trireme::planner
